"""Engines served at two endpoints, one playing gRPC and one shared memory, and policies that remember."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.transport import Transport
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL, Comparison
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.support.fault_injection import FaultSpec, FaultyTransport
from tests.support.waiting import PATIENCE_S


class FakePolicy:
    """Decides `decisions[method]`, else `default`; keeps what is noted."""

    def __init__(self, default: Decision, decisions: dict[str, Decision] | None = None) -> None:
        self.default = default
        self.decisions = decisions or {}
        self.notes: list[Comparison] = []
        self._news = threading.Condition()

    def decide(self, method: str) -> Decision:
        return self.decisions.get(method, self.default)

    def note(self, comparison: Comparison) -> None:
        with self._news:
            self.notes.append(comparison)
            self._news.notify_all()

    def close(self) -> None:
        pass

    def wait_for(self, method: str, count: int = 1) -> list[Comparison]:
        """Return the notes on a method once there are so many; fails when they do not come."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.of(method)) >= count, PATIENCE_S), self.notes
            return self.of(method)

    def of(self, method: str) -> list[Comparison]:
        return [one for one in self.notes if one.method == method]


@pytest.fixture
def new_policy() -> type[FakePolicy]:
    """Return the class of policies that remember; give it a decision, and others by method."""
    return FakePolicy


#: Makes one side's connection.
Connect = Callable[[], Transport]
#: Makes a staged transport: (policy, control endpoint, candidate endpoint).
Open = Callable[..., StagedTransport]


@pytest.fixture
def open_staged() -> Generator[Open]:
    """Yield a function that returns staged transports, closed at the end."""
    with ExitStack() as stack:

        def make(policy: Any, control: str | Connect, candidate: str | Connect) -> StagedTransport:
            sides = RoutedConnection(CONTROL, _connecting(control)), RoutedConnection(CANDIDATE, _connecting(candidate))
            router = ProcessRouter(policy)
            stack.callback(router.close)
            return stack.enter_context(StagedTransport(*sides, router))

        yield make


@pytest.fixture
def serve() -> Generator[Callable[..., str]]:
    """Yield a function that serves an engine in this process and returns its endpoint, "inproc://name"."""
    with ExitStack() as stack:

        def start(engine: str | Engine = "toy", num_envs: int = 2, **options: Any) -> str:
            serving = api.serve(engine, f"inproc://{unique_name()}", num_envs=num_envs, options=options)
            stack.enter_context(serving)
            return str(serving.endpoints[0])

        yield start


@pytest.fixture
def faulty() -> Callable[..., Connect]:
    """Return a function that makes connections to an endpoint, with faults in them."""

    def make(endpoint: str, *faults: FaultSpec) -> Connect:
        return lambda: FaultyTransport(api.open_transport(endpoint), *faults)

    return make


def _connecting(where: str | Connect) -> Connect:
    return partial(api.open_transport, where) if isinstance(where, str) else where
