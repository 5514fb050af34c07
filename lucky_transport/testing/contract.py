"""The contract suites: inherit `TransportContract` or `EngineContract` in a test file.

`lucky_transport.testing` shows how. A skipped test names the capability that the transport does not declare.
"""

from __future__ import annotations

from lucky_transport.testing.async_envs_contract import AsyncEnvsContract
from lucky_transport.testing.client_contract import ClientContract
from lucky_transport.testing.composite_contract import CompositeContract
from lucky_transport.testing.engine_contract import EngineContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.images_contract import ImagesContract
from lucky_transport.testing.services_contract import ServicesContract
from lucky_transport.testing.sessions_contract import SessionsContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.switch_contract import SwitchContract

__all__ = ["EngineContract", "TransportContract"]


class TransportContract(
    SteppingContract,
    AsyncEnvsContract,
    CompositeContract,
    FailureContract,
    ServicesContract,
    StreamsContract,
    SwitchContract,
    ImagesContract,
    SessionsContract,
    ClientContract,
):
    """What every transport promises: set `endpoint`, and override `serve` or `connect` where that is not enough."""
