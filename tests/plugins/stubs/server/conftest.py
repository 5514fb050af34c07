"""Servers over shared memory and channels to them; whatever a test started is gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, until, until_none_left

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.config import runtime_directories
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc


class Served(NamedTuple):
    """A started server, and where it listens."""

    server: Any
    target: str


#: Serves behaviours by method name; the arity is their prefix: serve({"unary_unary Echo": echo}, **server arguments).
Serve = Callable[..., Served]


@pytest.fixture
def address() -> Iterator[Callable[[], str]]:
    """Make addresses of this test's own; nothing of them may be left afterwards."""
    names: list[str] = []

    def new() -> str:
        names.append(unique_name())
        return f"shm://{names[-1]}"

    yield new
    folders = [folder for folder in runtime_directories() if folder.is_dir()]
    until(lambda: not [path for name in names for folder in folders for path in Path(folder).glob(f"{name}*")])


@pytest.fixture
def make_server(address: object) -> Iterator[Callable[..., Any]]:
    """Make servers with pools of their own; both are stopped before `address` looks, and no thread may be left."""
    with ExitStack() as stack:

        def make(workers: int = 8, **arguments: Any) -> Any:
            pool = ThreadPoolExecutor(workers)
            stack.callback(pool.shutdown)
            server = lucky_transport_stubs.server(pool, **arguments)
            stack.callback(server.stop, None)
            return server

        yield make
    until_none_left(lambda: threads_of("grpc server"))


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


class Client:
    """A channel, with a multi-callable for each method of "t.Test": `client.unary_unary("Echo")(b"x", timeout=1)`."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def __getattr__(self, arity: str) -> Callable[[str], Any]:
        return lambda name: getattr(self.channel, arity)(f"/t.Test/{name}")


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
