"""One servicer serves callers over a real gRPC server and over shared memory at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


class Counter:
    """Counts its calls, whoever makes them; as generated code knows servicers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0

    def Add(self, request: bytes, context: Any) -> bytes:  # noqa: N802 - as generated code names it
        with self._lock:
            self._calls += int(request)
            return b"%d" % self._calls

    def Watch(self, request: bytes, context: Any) -> Iterator[bytes]:  # noqa: N802
        for _ in range(int(request)):
            with self._lock:
                yield b"%d" % self._calls


def add_counter_to_server(servicer: Counter, server: Any) -> None:
    """What the generated `add_...Servicer_to_server` does; that of older grpcio-tools leaves out the second half."""
    handlers = {
        "Add": grpc.unary_unary_rpc_method_handler(servicer.Add),
        "Watch": grpc.unary_stream_rpc_method_handler(servicer.Watch),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Counter", handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers("t.Counter", handlers)


@pytest.fixture
def channels(make_server: Any, address: Any) -> Iterator[list[Any]]:
    """Channels to both servers of one servicer: gRPC's and ours."""
    servicer, target = Counter(), address()
    ours = make_server()
    add_counter_to_server(servicer, ours)
    ours.add_insecure_port(target)
    ours.start()
    with ThreadPoolExecutor(4) as pool:
        theirs = grpc.server(pool)
        add_counter_to_server(servicer, theirs)
        port = theirs.add_insecure_port("127.0.0.1:0")
        theirs.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as one, lucky_transport_stubs.channel(target) as other:
            yield [one, other]
        theirs.stop(None).wait(PATIENCE_S)


def test_both_servers_call_the_same_servicer(channels: list[Any]) -> None:
    counts = [channel.unary_unary("/t.Counter/Add")(b"1", timeout=PATIENCE_S) for channel in channels * 3]
    assert counts == [b"1", b"2", b"3", b"4", b"5", b"6"]
    for channel in channels:
        assert list(channel.unary_stream("/t.Counter/Watch")(b"2", timeout=PATIENCE_S)) == [b"6", b"6"]


def test_both_are_live_at_once(channels: list[Any]) -> None:
    def add(channel: Any) -> None:
        for _ in range(100):
            channel.unary_unary("/t.Counter/Add")(b"1", timeout=PATIENCE_S)

    threads = [threading.Thread(target=add, args=(channel,)) for channel in channels * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for channel in channels:
        assert channel.unary_unary("/t.Counter/Add")(b"0", timeout=PATIENCE_S) == b"400"
