"""A server and its callers, beside what `differential` compares: who they are, those who leave, die, write garbage."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe


def test_a_peer_is_a_connection_and_nobody_is_authenticated(serve: Any, dial: Any) -> None:
    peers: list[str] = []

    def handler(request: bytes, context: Any) -> bytes:
        assert (context.peer_identities(), context.peer_identity_key()) == (None, None)
        assert context.auth_context()["transport_security_type"] == [b"insecure"]
        peers.append(context.peer())
        return b""

    served = serve({"unary_unary Method": handler})
    for client in (dial(served), dial(served)):
        for _ in range(2):
            client.unary_unary("Method")(b"", timeout=PATIENCE_S)
    assert all(re.fullmatch(r"ipv4:127\.0\.0\.1:\d{4,5}", peer) for peer in peers)
    assert peers[0] == peers[1] != peers[2] == peers[3]


def test_a_method_is_not_called_for_a_call_that_was_cancelled_before(serve: Any, dial: Any, gate: Any) -> None:
    entered, resume = gate(), gate()
    asked: list[bytes] = []

    def handler(request: bytes, context: Any) -> bytes:
        asked.append(request)
        entered.set()
        resume.wait()
        return request

    @lucky_transport_stubs.inline
    def ping(request: bytes, context: Any) -> bytes:
        return b""

    client = dial(serve({"unary_unary Method": handler, "unary_unary Ping": ping}, workers=1))
    first = client.unary_unary("Method").future(b"first", timeout=PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    second = client.unary_unary("Method").future(b"second", timeout=PATIENCE_S)
    third = client.unary_unary("Method").future(b"third", timeout=PATIENCE_S)
    second.cancel()
    client.unary_unary("Ping")(b"", timeout=PATIENCE_S)  # so the server has read the cancel before it
    resume.set()
    assert (first.result(PATIENCE_S), third.result(PATIENCE_S)) == (b"first", b"third")
    assert asked == [b"first", b"third"]


def test_a_thread_that_still_reads_requests_is_released_by_the_answer(serve: Any, dial: Any, gate: Any) -> None:
    never = gate()
    seen: list[Any] = []

    def handler(requests: Iterator[bytes], context: Any) -> bytes:
        reading = threading.Thread(target=lambda: seen.append(list(requests)))
        reading.start()
        until(lambda: reading.is_alive())
        return b"enough"

    def requests() -> Iterator[bytes]:
        yield b"first"
        never.wait()

    client = dial(serve({"stream_unary Method": handler}))
    call = client.stream_unary("Method").future(requests(), timeout=PATIENCE_S)
    assert call.result(PATIENCE_S) == b"enough"
    until(lambda: seen)


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
