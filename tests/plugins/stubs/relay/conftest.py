"""A gRPC server of Python's own, and relays to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.relay.relay import Relay

#: Serves these behaviours by gRPC at an address, a free port of this host unless another is given; returns its port.
Serve = Callable[..., int]
#: Returns a channel through a new relay to an upstream.
Through = Callable[..., Any]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(stack: ExitStack, handlers_of: Callable[[Mapping[str, Any]], Any]) -> Serve:
    def at(methods: Mapping[str, Any], address: str = "127.0.0.1:0", *, credentials: Any = None) -> int:
        pool = ThreadPoolExecutor(8)
        stack.callback(pool.shutdown, wait=False)
        options = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0))
        server = grpc.server(pool, [handlers_of(methods)], options=options)
        bind = server.add_insecure_port if credentials is None else server.add_secure_port
        port = bind(address, *(() if credentials is None else (credentials,)))
        server.start()
        stack.callback(lambda: server.stop(None).wait())
        return port

    return at


@pytest.fixture
def through(stack: ExitStack) -> Through:
    def channel(upstream: str | int, options: Any = None, **arguments: Any) -> Any:
        where = upstream if isinstance(upstream, str) else f"grpc://127.0.0.1:{upstream}"
        relay = stack.enter_context(Relay(where, f"shm://{unique_name()}", **arguments))
        return stack.enter_context(lucky_transport_stubs.channel(relay.endpoint, options=options))

    return channel
