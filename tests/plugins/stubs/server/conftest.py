"""Servers over shared memory and channels to them; whatever a test started is gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.support.fixtures.plugins_stubs import Client, nothing_is_left
from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc


class Served(NamedTuple):
    """A started server, and where it listens."""

    server: Any
    target: str


#: Serves behaviours by method name; the arity is their prefix: serve({"unary_unary Echo": echo}, **server arguments).
Serve = Callable[..., Served]


@pytest.fixture
def address() -> Callable[[], str]:
    """Make addresses of this test's own."""
    return lambda: f"shm://{unique_name()}"


@pytest.fixture
def make_server() -> Iterator[Callable[..., Any]]:
    """Make servers with pools of their own, which are stopped with the test."""
    with ExitStack() as stack:

        def make(workers: int = 8, **arguments: Any) -> Any:
            pool = ThreadPoolExecutor(workers)
            stack.callback(pool.shutdown)
            server = lucky_transport_stubs.server(pool, **arguments)
            stack.callback(server.stop, None)
            return server

        yield make


@pytest.fixture
def serve(make_server: Any, address: Callable[[], str], handlers_of: Any) -> Serve:
    def start(methods: Mapping[str, Any], *, target: str = "", **arguments: Any) -> Served:
        server = make_server(**arguments)
        server.add_generic_rpc_handlers((handlers_of(methods),))
        found = target or address()
        assert server.add_insecure_port(found)
        server.start()
        return Served(server, found)

    return start


@pytest.fixture
def dial() -> Iterator[Callable[..., Client]]:
    """Open channels; they are closed with the test."""
    with ExitStack() as stack:

        def connect(target: str | Served, **arguments: Any) -> Client:
            channel = lucky_transport_stubs.channel(
                target.target if isinstance(target, Served) else target, **arguments
            )
            stack.callback(channel.close)
            return Client(channel)

        yield connect


@pytest.fixture
def refused() -> Callable[..., tuple[str, str]]:
    """Make a call that must fail, and return (the name of its code, its details)."""

    def call(function: Callable[..., Any], *arguments: Any, timeout: float = PATIENCE_S, **options: Any) -> Any:
        try:
            outcome = function(*arguments, timeout=timeout, **options)
            outcome = list(outcome) if hasattr(outcome, "__next__") else outcome
        except grpc.RpcError as caught:
            error: Any = caught
            return error.code().name, error.details()
        pytest.fail(f"the call succeeded: {outcome!r}")

    return call


@pytest.fixture
def gate() -> Iterator[Callable[[], threading.Event]]:
    """Make events for handlers to wait on; they are set at the end, so that no handler outlives its test."""
    made: list[threading.Event] = []

    def new() -> threading.Event:
        made.append(threading.Event())
        return made[-1]

    yield new
    for event in made:
        event.set()
