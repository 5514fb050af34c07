"""Which handler answers and where it runs, and what a server does with those it cannot call."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport
import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import PATIENCE_S, until

from .conftest import OurEnds


def says(text: bytes) -> Any:
    return lambda request, context: text


def ask(client: Any, name: str = "Method", **options: Any) -> bytes:
    return client.unary_unary(name)(b"", timeout=PATIENCE_S, **options)


def refused(method: Any) -> tuple[str, str]:
    """Call what must fail, and return (the name of its code, its details)."""
    call = method(b"", timeout=PATIENCE_S) if "Stream" in type(method).__name__ else method.future(b"")
    return call.code().name, call.details()


class _Half:
    """What looks like a handler until it is used."""

    request_streaming = response_streaming = False
    unary_unary = staticmethod(lambda request, context: request)


NO_HANDLER = ("INTERNAL", "Found no grpc.RpcMethodHandler")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (object(), NO_HANDLER),
        ("no handler", NO_HANDLER),
        (_Half(), NO_HANDLER),
        (SystemExit(1), ("UNKNOWN", "Error in service handler!")),
    ],
    ids=["object", "text", "half", "exit"],
)
def test_an_interceptor_that_returns_no_handler_fails_that_call_alone(ends: OurEnds, found: Any, told: Any) -> None:
    class Misleading(grpc.ServerInterceptor):
        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            if "Misled" not in handler_call_details.method:
                return continuation(handler_call_details)
            if isinstance(found, SystemExit):
                raise found
            return found

    # as with gRPC's, a call may count for a moment after its answer has come
    methods = {"unary_unary Method": says(b"well")}
    client = ends.pair(methods, interceptors=[Misleading()], maximum_concurrent_rpcs=4)
    for _ in range(3):
        code, details = refused(client.unary_unary("Misled"))
        assert (code, told[1] in details) == (told[0], True)
        assert refused(client.unary_stream("Misled")) == (code, details)
        assert ask(client) == b"well"


def test_a_pool_that_takes_no_task_fails_that_call_and_keeps_no_slot(ends: OurEnds) -> None:
    class Full(Exception):
        """What a bounded pool of a program raises."""

    class Bounded(ThreadPoolExecutor):
        is_full = False

        def submit(self, *arguments: Any, **named: Any) -> Any:
            if self.is_full:
                raise Full("no room for another task")
            return super().submit(*arguments, **named)

    with Bounded(2) as pool:
        client = ends.over(pool, {"unary_unary Method": says(b"well")}, maximum_concurrent_rpcs=2)
        for _ in range(3):
            pool.is_full = True
            assert refused(client.unary_unary("Method")) == ("UNAVAILABLE", "no room for another task")
            pool.is_full = False
            assert ask(client) == b"well"


class Servicer:
    """Tells the name of the thread that runs it."""

    @lucky_transport.inline
    def inline(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    def pooled(self, request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()


def test_an_inline_handler_runs_on_the_thread_that_reads_and_others_in_the_pool(ends: OurEnds) -> None:
    servicer = Servicer()
    served = ends.serve(
        {
            "unary_unary Inline": servicer.inline,
            "unary_unary Partial": functools.partial(servicer.inline),
            "unary_unary Pooled": servicer.pooled,
        }
    )
    client = ends.dial(served)
    assert ask(client, "Inline") == ask(client, "Partial") == f"grpc server {served.target}".encode()
    assert ask(client, "Pooled").startswith(b"ThreadPoolExecutor")


def test_an_inline_handler_that_breaks_costs_its_own_call_only(ends: OurEnds) -> None:
    @lucky_transport.inline
    def broken(request: bytes, context: Any) -> bytes:
        raise SystemExit("enough")

    client = ends.pair({"unary_unary Broken": broken, "unary_unary Inline": Servicer().inline})
    assert refused(client.unary_unary("Broken")) == ("UNKNOWN", "Exception calling application: enough")
    assert ask(client, "Inline")


def test_the_mark_is_for_unary_calls_only(ends: OurEnds) -> None:
    client = ends.pair({"unary_unary Inline": Servicer().inline})
    name = client.stream_unary("Inline")(iter([b""]), timeout=PATIENCE_S)
    assert name.startswith(b"ThreadPoolExecutor")


def test_a_peer_is_a_connection_and_nobody_is_authenticated(ends: OurEnds) -> None:
    peers: list[str] = []

    def handler(request: bytes, context: Any) -> bytes:
        assert (context.peer_identities(), context.peer_identity_key()) == (None, None)
        assert context.auth_context()["transport_security_type"] == [b"insecure"]
        peers.append(context.peer())
        return b""

    served = ends.serve({"unary_unary Method": handler})
    for client in (ends.dial(served), ends.dial(served)):
        for _ in range(2):
            client.unary_unary("Method")(b"", timeout=PATIENCE_S)
    assert all(re.fullmatch(r"ipv4:127\.0\.0\.1:\d{4,5}", peer) for peer in peers)
    assert peers[0] == peers[1] != peers[2] == peers[3]


def test_a_method_is_not_called_for_a_call_that_was_cancelled_before(ends: OurEnds) -> None:
    entered, resume = ends.gate(), ends.gate()
    asked: list[bytes] = []

    def handler(request: bytes, context: Any) -> bytes:
        asked.append(request)
        entered.set()
        resume.wait()
        return request

    @lucky_transport_stubs.inline
    def ping(request: bytes, context: Any) -> bytes:
        return b""

    client = ends.pair({"unary_unary Method": handler, "unary_unary Ping": ping}, workers=1)
    first = client.unary_unary("Method").future(b"first", timeout=PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    second = client.unary_unary("Method").future(b"second", timeout=PATIENCE_S)
    third = client.unary_unary("Method").future(b"third", timeout=PATIENCE_S)
    second.cancel()
    client.unary_unary("Ping")(b"", timeout=PATIENCE_S)  # so the server has read the cancel before it
    resume.set()
    assert (first.result(PATIENCE_S), third.result(PATIENCE_S)) == (b"first", b"third")
    assert asked == [b"first", b"third"]


def test_a_thread_that_still_reads_requests_is_released_by_the_answer(ends: OurEnds) -> None:
    never = ends.gate()
    seen: list[Any] = []

    def handler(requests: Iterator[bytes], context: Any) -> bytes:
        reading = threading.Thread(target=lambda: seen.append(list(requests)))
        reading.start()
        until(lambda: reading.is_alive())
        return b"enough"

    def requests() -> Iterator[bytes]:
        yield b"first"
        never.wait()

    client = ends.pair({"stream_unary Method": handler})
    call = client.stream_unary("Method").future(requests(), timeout=PATIENCE_S)
    assert call.result(PATIENCE_S) == b"enough"
    until(lambda: seen)


def test_a_pool_that_was_shut_down_makes_the_server_unavailable(ends: OurEnds) -> None:
    pool = ThreadPoolExecutor(2)
    client = ends.over(pool, {"unary_unary Method": says(b"well")})
    pool.shutdown()
    assert refused(client.unary_unary("Method"))[0] == "UNAVAILABLE"
