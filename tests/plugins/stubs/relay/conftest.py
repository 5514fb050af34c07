"""A gRPC server of Python's own, and relays to it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_stubs.relay.relay import Relay
from tests.support.waiting import PATIENCE_S

from ..differential.ends import Methods, Options, add_port, generic_handler

#: Serves these behaviours by gRPC at an address, a free port of this host unless another is given; returns its port.
Serve = Callable[..., int]
#: Returns a channel through a new relay to an upstream.
Through = Callable[..., Any]


def relay_to(upstream: str | int, endpoint: str = "", **arguments: Any) -> Relay:
    """Return a relay to an upstream, or to the one at a port of this host, at a new endpoint unless one is given."""
    where = upstream if isinstance(upstream, str) else f"grpc://127.0.0.1:{upstream}"
    return Relay(where, endpoint or f"shm://{unique_name()}", **arguments)


def echo(request: bytes, context: Any) -> bytes:
    return request


class Stuck:
    """A behaviour that never answers; it notes when it is entered and when its call has ended."""

    def __init__(self) -> None:
        self.entered, self.ended = threading.Event(), threading.Event()

    def __call__(self, request: Any, context: Any) -> Iterator[bytes]:
        context.add_callback(self.ended.set)
        self.entered.set()
        self.ended.wait(PATIENCE_S)
        yield b""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(stack: ExitStack) -> Serve:
    def at(
        methods: Methods,
        address: str = "127.0.0.1:0",
        *,
        credentials: Any = None,
        workers: int = 8,
        options: Options = (),
    ) -> int:
        pool = ThreadPoolExecutor(workers)
        stack.callback(pool.shutdown, wait=False)
        options = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0), *options)
        server = grpc.server(pool, [generic_handler(methods, "t.Test")], options=options)
        port = add_port(server, address, credentials)
        server.start()
        stack.callback(lambda: server.stop(None).wait())
        return port

    return at


@pytest.fixture
def through(stack: ExitStack) -> Through:
    def channel(upstream: str | int, options: Any = None, **arguments: Any) -> Any:
        relay = stack.enter_context(relay_to(upstream, **arguments))
        return stack.enter_context(lucky_transport_stubs.channel(relay.endpoint, options=options))

    return channel
