"""A relay under many calls: none keeps another one up, and what its connection to the upstream does is not seen."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.relay.relay import Relay
from tests.support.fixtures.plugins_stubs_relay import Serve, Through
from tests.support.waiting import PATIENCE_S

MIB = 1 << 20
STREAMS = 100


def echo(request: bytes, context: Any) -> bytes:
    return request


def each(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    yield from requests


@pytest.fixture
def port(stack: ExitStack) -> int:
    """Of a server that answers many streams at once and renews its connections every tenth of a second."""

    def peer(request: bytes, context: Any) -> bytes:
        return context.peer().encode()

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        while context.is_active():
            yield b"x" * MIB

    handlers = {
        "Each": grpc.stream_stream_rpc_method_handler(each),
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Endless": grpc.unary_stream_rpc_method_handler(endless),
        "Peer": grpc.unary_unary_rpc_method_handler(peer),
    }
    pool = ThreadPoolExecutor(STREAMS + 10)
    stack.callback(pool.shutdown, wait=False)
    options = (("grpc.max_connection_age_ms", 100), ("grpc.so_reuseport", 0))
    server = grpc.server(pool, [grpc.method_handlers_generic_handler("t.Test", handlers)], options=options)
    found = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(lambda: server.stop(None).wait())
    return found


def test_a_hundred_streams_are_open_at_once(port: int, through: Through) -> None:
    channel = through(port)
    sent: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(STREAMS)]
    calls = [channel.stream_stream("/t.Test/Each")(iter(one.get, None), timeout=PATIENCE_S) for one in sent]
    for number in range(3):
        for one in sent:
            one.put(b"%d" % number)
        assert {next(call) for call in calls} == {b"%d" % number}
    for one in sent:
        one.put(None)
    assert [item for call in calls for item in call] == []


def test_clients_that_read_nothing_keep_no_other_one_up(port: int, stack: ExitStack) -> None:
    relay = stack.enter_context(Relay(f"grpc://127.0.0.1:{port}", f"shm://{unique_name()}"))
    one, other = (stack.enter_context(lucky_transport_stubs.channel(relay.endpoint)) for _ in range(2))
    slow = [one.unary_stream("/t.Test/Endless")(b"") for _ in range(20)]
    for call in slow:
        next(call)
    echo = other.unary_unary("/t.Test/Echo")
    for _ in range(20):
        assert len(echo(b"y" * MIB, timeout=PATIENCE_S)) == MIB
    for call in slow:
        call.cancel()


def test_calls_go_on_while_the_server_renews_the_connection(port: int, through: Through) -> None:
    call, peers = through(port).unary_unary("/t.Test/Peer"), set[bytes]()
    while len(peers) < 3:
        peers.add(call(b"", timeout=PATIENCE_S))


def test_metadata_as_long_as_the_client_takes_pass_each_time(serve: Serve, through: Through) -> None:
    def answer(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("first", "x" * 14_000),))
        context.set_trailing_metadata((("last", "x" * 14_000),))
        return request

    method = through(serve({"unary_unary Answer": answer})).unary_unary("/t.Test/Answer")
    for _ in range(10):
        _, call = method.with_call(b"", timeout=PATIENCE_S)
        assert [len(value) for _, value in (*call.initial_metadata(), *call.trailing_metadata())] == [14_000] * 2
