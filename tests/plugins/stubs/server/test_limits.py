"""A server whose pool is gone, and callers who die, write garbage or read nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe


def length(request: bytes, context: Any) -> bytes:
    return b"%d" % len(request)


METHODS = {"unary_unary Length": length}


def test_a_pool_that_was_shut_down_makes_the_server_unavailable(
    handlers_of: Any, address: Any, dial: Any, refused: Any
) -> None:
    pool, target = ThreadPoolExecutor(2), address()
    server = lucky_transport_stubs.server(pool, handlers=(handlers_of(METHODS),))
    server.add_insecure_port(target)
    server.start()
    pool.shutdown()
    assert refused(dial(target).unary_unary("Length"), b"")[0] == "UNAVAILABLE"
    server.stop(None)


CALLER = """
import sys, threading
import lucky_transport_stubs
channel = lucky_transport_stubs.channel(sys.argv[1])
for name in ("unary_unary", "stream_unary"):
    argument = b"" if name == "unary_unary" else iter(threading.Event().wait, None)
    call = getattr(channel, name)(f"/t.Test/{name}").future(argument)
stream = channel.unary_stream("/t.Test/unary_stream")(b"")
next(stream)
print("calling", flush=True)
sys.stdin.read()
"""


def test_a_killed_caller_frees_his_handlers(serve: Any, gate: Any) -> None:
    begun: list[str] = []
    freed: list[str] = []

    def unary(request: bytes, context: Any) -> bytes:
        over = gate()
        context.add_callback(over.set)
        begun.append("unary")
        over.wait()
        freed.append("unary")
        return b""

    def requests(found: Iterator[bytes], context: Any) -> bytes:
        begun.append("requests")
        try:
            return b"".join(found)
        finally:
            freed.append("requests")

    def stream(request: bytes, context: Any) -> Iterator[bytes]:
        begun.append("stream")
        try:
            while True:
                yield bytes(1000)
        finally:
            freed.append("stream")

    served = serve(
        {"unary_unary unary_unary": unary, "stream_unary stream_unary": requests, "unary_stream unary_stream": stream}
    )
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, served.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"calling\n"
        until(lambda: sorted(begun) == ["requests", "stream", "unary"])
        process.kill()
    until(lambda: sorted(freed) == ["requests", "stream", "unary"])


def test_a_caller_who_writes_garbage_is_dropped_and_the_others_are_served(serve: Any, dial: Any) -> None:
    served = serve(METHODS)
    client = dial(served)
    bad = connect_pipe(served.target.removeprefix("shm://"), Deadline(PATIENCE_S))
    bad.try_push(b"garbage!")
    until(lambda: bad.peer_left)
    bad.close()
    assert client.unary_unary("Length")(b"x", timeout=PATIENCE_S) == b"1"


def test_a_caller_who_reads_nothing_holds_nobody_up(serve: Any, dial: Any) -> None:
    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    served = serve({**METHODS, "unary_stream Endless": endless})
    lazy, client = dial(served), dial(served)
    calls = [lazy.unary_stream("Endless")(b"", timeout=PATIENCE_S) for _ in range(3)]
    for _ in range(20):
        assert client.unary_unary("Length")(b"x", timeout=PATIENCE_S) == b"1"
    for call in calls:
        call.cancel()
