"""The shared-memory transport keeps the contract: native, on the fallback, with each wait strategy."""

from __future__ import annotations

import platform

import pytest

from lucky_transport.shm.atomics import native_error
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import SteppingContract

needs_native = pytest.mark.skipif(bool(native_error()), reason=native_error() or "native")
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the fallback is refused off x86-64")


@needs_native
class TestShm(TransportContract):
    endpoint = "shm://{name}"


@on_x86
class TestShmFallback(TransportContract):
    endpoint = "shm://{name}"
    settings = {"native": False}  # noqa: RUF012 - read only


@needs_native
class TestShmBlocking(SteppingContract, FailureContract):
    endpoint = "shm://{name}"
    settings = {"wait": "block"}  # noqa: RUF012 - read only
