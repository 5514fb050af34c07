"""A servicer's context and the end of its call, beside what `differential` compares with grpc.server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


@pytest.fixture
def tell(serve: Any, dial: Any) -> Any:
    """Make a unary call, and return what `look(context)` saw in its handler."""

    def make_call(look: Any, **options: Any) -> Any:
        seen: list[Any] = []

        def handler(request: bytes, context: Any) -> bytes:
            seen.append(look(context))
            return b""

        client = dial(serve({"unary_unary Method": handler}))
        client.unary_unary("Method")(b"", **{"timeout": PATIENCE_S, **options})
        return seen[0]

    return make_call


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


def test_before_anything_is_set_there_is_nothing(tell: Any) -> None:
    def look(context: Any) -> Any:
        return context.is_active(), context.code(), context.details(), context.trailing_metadata()

    assert tell(look) == (True, None, None, None)


@pytest.mark.parametrize("how", ["cancelled", "late", "by the servicer"])
def test_a_call_that_ends_early_is_seen_at_once(serve: Any, dial: Any, gate: Any, how: str) -> None:
    entered, over = gate(), gate()
    seen: list[Any] = []

    def handler(request: bytes, context: Any) -> bytes:
        context.add_callback(over.set)
        entered.set()
        if how == "by the servicer":
            context.cancel()
        assert over.wait(PATIENCE_S)
        seen.append(context.is_active())
        with pytest.raises(grpc.RpcError):
            context.send_initial_metadata(())
        seen.append(context.add_callback(lambda: None))
        done.set()
        return b"nobody wants it"

    done = threading.Event()
    client = dial(serve({"unary_unary Method": handler}))
    call = client.unary_unary("Method").future(b"", timeout=2.0 if how == "late" else PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    if how == "cancelled":
        call.cancel()
    assert done.wait(PATIENCE_S)
    assert seen == [False, False]


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


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_requests_end_with_an_error_when_the_caller_leaves_before_the_last(
    serve: Any, dial: Any, gate: Any, how: str
) -> None:
    entered, never = gate(), gate()
    seen: list[Any] = []

    def handler(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        seen.append(next(requests))
        entered.set()
        for _ in range(2):
            try:
                next(requests)
            except grpc.RpcError:
                seen.append("left")
        yield b"nobody wants it"

    def requests() -> Iterator[bytes]:
        yield b"first"
        never.wait()

    client = dial(serve({"stream_stream Method": handler}))
    call = client.stream_stream("Method")(requests(), timeout=2.0 if how == "late" else PATIENCE_S)
    assert entered.wait(PATIENCE_S)
    if how == "cancelled":
        call.cancel()
    until(lambda: seen == [b"first", "left", "left"])


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
