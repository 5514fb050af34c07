"""What a server refuses: too many calls, too long messages; and callers who cost it its patience."""

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

ANY = (("grpc.max_receive_message_length", -1),)


def length(request: bytes, context: Any) -> bytes:
    return b"%d" % len(request)


def lengths(requests: Iterator[bytes], context: Any) -> bytes:
    return b"%d" % sum(map(len, requests))


def zeros(request: bytes, context: Any) -> bytes:
    return bytes(int(request))


METHODS = {"unary_unary Length": length, "stream_unary Lengths": lengths, "unary_unary Zeros": zeros}


def test_more_calls_than_allowed_are_refused_after_unknown_methods(
    serve: Any, dial: Any, gate: Any, refused: Any
) -> None:
    entered, resume = gate(), gate()

    def hang(request: bytes, context: Any) -> bytes:
        entered.set()
        resume.wait()
        return b"done"

    client = dial(serve({"unary_unary Hang": hang, **METHODS}, maximum_concurrent_rpcs=1))
    call = client.unary_unary("Hang").future(b"", timeout=PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    assert refused(client.unary_unary("Length"), b"") == ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!")
    assert refused(client.unary_unary("Nothing"), b"")[0] == "UNIMPLEMENTED"
    resume.set()
    assert call.result(PATIENCE_S) == b"done"
    for _ in range(20):  # each gives its place back
        until(lambda: client.unary_unary("Length")(b"x", timeout=PATIENCE_S) == b"1")


@pytest.mark.parametrize(("limit", "options"), [(4 << 20, ()), (100, (("grpc.max_receive_message_length", 100),))])
def test_a_message_of_the_limit_is_taken_and_a_longer_one_refused(
    serve: Any, dial: Any, refused: Any, limit: int, options: Any
) -> None:
    client = dial(serve(METHODS, options=options))
    assert client.unary_unary("Length")(bytes(limit), timeout=PATIENCE_S) == b"%d" % limit
    assert client.stream_unary("Lengths")(iter([bytes(limit)] * 2), timeout=PATIENCE_S) == b"%d" % (2 * limit)
    text = f"SERVER: Received message larger than max ({limit + 1} vs. {limit})"
    assert refused(client.unary_unary("Length"), bytes(limit + 1)) == ("RESOURCE_EXHAUSTED", text)
    assert refused(client.stream_unary("Lengths"), iter([b"x", bytes(limit + 1)])) == ("RESOURCE_EXHAUSTED", text)


def test_without_a_limit_any_length_is_taken(serve: Any, dial: Any) -> None:
    client = dial(serve(METHODS, options=ANY), options=ANY)
    assert client.unary_unary("Length")(bytes(9 << 20), timeout=PATIENCE_S) == b"%d" % (9 << 20)
    assert len(client.unary_unary("Zeros")(b"9000000", timeout=PATIENCE_S)) == 9_000_000


def test_a_response_longer_than_the_server_may_send_fails_the_call(serve: Any, dial: Any, refused: Any) -> None:
    client = dial(serve(METHODS, options=(("grpc.max_send_message_length", 10),)))
    assert len(client.unary_unary("Zeros")(b"10", timeout=PATIENCE_S)) == 10
    text = "SERVER: Sent message larger than max (11 vs. 10)"
    assert refused(client.unary_unary("Zeros"), b"11") == ("RESOURCE_EXHAUSTED", text)


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
