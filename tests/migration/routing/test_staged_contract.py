"""A staged transport keeps the contract of transports, whichever side answers while the other one looks on.

The control is the engine without a wire, the candidate shared memory, both of one engine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.services_contract import ServicesContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL, Comparison
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport


class _Policy:
    """Decides the same for every method; what is noted is of no interest here."""

    def __init__(self, primary: str, shadow: str) -> None:
        self._decision = Decision(primary, shadow, "test")

    def decide(self, method: str) -> Decision:
        return self._decision

    def digest(self, method: str, decision: Decision) -> None:
        pass

    def note(self, comparison: Comparison) -> None:
        assert comparison.method

    def close(self) -> None:
        pass


@cache
def _router(primary: str, shadow: str) -> ProcessRouter:
    return ProcessRouter(_Policy(primary, shadow))


class _Staged(TransportSuite):
    declares = Capabilities(zero_copy=True, streams=True)
    primary, shadow = CONTROL, CANDIDATE

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        name = unique_name()
        endpoints = [f"inproc://{name}", f"shm://{name}"]
        with api.serve(engine, endpoints, num_envs=num_envs, options=options) as serving:
            control, candidate = map(str, serving.endpoints)
            yield Endpoint("staged", "", (("control", control), ("candidate", candidate)))

    def change_services(self, endpoint: Endpoint, **changes: Any) -> None:
        super().change_services(Endpoint.parse(endpoint.option("candidate")), **changes)

    def connect(self, endpoint: Endpoint) -> Transport:
        control = RoutedConnection(CONTROL, partial(api.open_transport, endpoint.option("control")))
        candidate = RoutedConnection(CANDIDATE, partial(api.open_transport, endpoint.option("candidate")))
        return StagedTransport(control, candidate, _router(self.primary, self.shadow))


class TestCandidateAnswersWithAShadow(_Staged, TransportContract):
    primary, shadow = CANDIDATE, CONTROL


@pytest.mark.exhaustive
class TestControlAnswersWithAShadow(_Staged, ServicesContract, StreamsContract):
    has_deadlines = False  # the engine runs in the client's own thread
