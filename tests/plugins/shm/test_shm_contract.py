"""The shared-memory transport keeps the contract: with each wait strategy."""

from __future__ import annotations

import pytest

from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.transport import Capabilities


class TestShm(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True, async_envs=True)
    endpoint = "shm://{name}"


@pytest.mark.exhaustive
class TestShmBlocking(SteppingContract, FailureContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True, async_envs=True)
    endpoint = "shm://{name}"
    settings = {"wait": "block"}  # noqa: RUF012 - read only
