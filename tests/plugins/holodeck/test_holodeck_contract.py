"""The Holodeck transport keeps the contract, between a client and an engine of ours."""

from __future__ import annotations

import pytest

from lucky_transport.testing.contract import TransportContract

pytest.importorskip(
    "posix_ipc", reason="the Holodeck transport needs posix_ipc: pip install 'lucky-transport[holodeck]'"
)


class TestHolodeck(TransportContract):
    endpoint = "holodeck://{name}"
