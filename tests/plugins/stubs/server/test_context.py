"""A servicer's context tells of the call and its caller, and sends what it is asked to."""

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


def test_it_knows_the_callers_metadata_and_names_his_user_agent_first(tell: Any) -> None:
    sent = (("key", "value"), ("key", "again"), ("raw-bin", b"\x00\xff"))
    agent, *others = tell(lambda context: context.invocation_metadata(), metadata=sent)
    assert agent.key == "user-agent"
    assert agent.value.startswith(f"grpc-python/{grpc.__version__} ")
    assert tuple(others) == sent
    assert (others[0].key, others[0].value) == ("key", "value")


def test_it_knows_how_long_the_caller_waits(tell: Any) -> None:
    assert 10 < tell(lambda context: context.time_remaining(), timeout=20) <= 20
    assert tell(lambda context: context.time_remaining(), timeout=None) > 1e9


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


def test_what_was_set_can_be_read_back(tell: Any) -> None:
    def look(context: Any) -> Any:
        context.set_code(grpc.StatusCode.OK)
        context.set_details("fine")
        context.set_trailing_metadata((("key", "value"),))
        context.set_compression(grpc.Compression.Gzip)
        context.disable_next_message_compression()
        return context.code(), context.details(), context.trailing_metadata()

    assert tell(look) == (grpc.StatusCode.OK, b"fine", (("key", "value"),))


@pytest.mark.parametrize("arity", ["unary_unary", "unary_stream"])
@pytest.mark.parametrize("fails", [False, True], ids=["well", "with an error"])
def test_metadata_travels_ahead_and_at_the_end(serve: Any, dial: Any, arity: str, fails: bool) -> None:
    initial, trailing = (("first", "1"), ("raw-bin", b"\x01")), (("last", "2"), ("last", "3"))

    def answer(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata(initial)
        context.set_trailing_metadata(trailing)
        if fails:
            context.abort(grpc.StatusCode.DATA_LOSS, "lost")
        return b"response"

    def stream(request: bytes, context: Any) -> Iterator[bytes]:
        yield answer(request, context)

    client = dial(serve({f"{arity} Method": answer if arity == "unary_unary" else stream}))
    method = getattr(client, arity)("Method")
    call = method.future(b"", timeout=PATIENCE_S) if arity == "unary_unary" else method(b"", timeout=PATIENCE_S)
    assert tuple(call.initial_metadata()) == initial
    try:
        assert (call.result() if arity == "unary_unary" else next(call)) == b"response"
        assert arity == "unary_unary" or next(call, None) is None
    except grpc.RpcError:
        assert fails
    assert tuple(call.trailing_metadata()) == trailing
    assert call.code() is (grpc.StatusCode.DATA_LOSS if fails else grpc.StatusCode.OK)


def test_initial_metadata_are_sent_once_and_before_messages(tell: Any, serve: Any, dial: Any) -> None:
    def twice(context: Any) -> None:
        context.send_initial_metadata(())
        with pytest.raises(ValueError, match="Initial metadata no longer allowed!"):
            context.send_initial_metadata(())

    tell(twice)

    def late(request: bytes, context: Any) -> Iterator[bytes]:
        yield b"message"
        with pytest.raises(ValueError, match="Initial metadata no longer allowed!"):
            context.send_initial_metadata(())

    client = dial(serve({"unary_stream Method": late}))
    assert list(client.unary_stream("Method")(b"", timeout=PATIENCE_S)) == [b"message"]


@pytest.mark.parametrize("where", ["send_initial_metadata", "set_trailing_metadata"])
def test_metadata_that_may_not_be_sent_fail_the_call(serve: Any, dial: Any, refused: Any, where: str) -> None:
    def handler(request: bytes, context: Any) -> bytes:
        getattr(context, where)((("Bad Key", "value"),))
        return b""

    client = dial(serve({"unary_unary Method": handler}))
    assert refused(client.unary_unary("Method"), b"") == ("INTERNAL", "Invalid metadata")


def test_abort_with_status_takes_all_from_the_status(serve: Any, dial: Any) -> None:
    class Status(grpc.Status):
        code = grpc.StatusCode.OUT_OF_RANGE
        details = "too far"
        trailing_metadata = (("how", "far"),)

    def handler(request: bytes, context: Any) -> bytes:
        context.abort_with_status(Status())
        return b""

    client = dial(serve({"unary_unary Method": handler}))
    with pytest.raises(grpc.RpcError) as caught:
        client.unary_unary("Method")(b"", timeout=PATIENCE_S)
    error: Any = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.OUT_OF_RANGE, "too far")
    assert tuple(error.trailing_metadata()) == Status.trailing_metadata


def test_callbacks_run_when_the_call_is_over_also_those_after_a_broken_one(serve: Any, dial: Any) -> None:
    seen: list[str] = []
    contexts: list[Any] = []

    def handler(request: bytes, context: Any) -> bytes:
        contexts.append(context)
        assert context.add_callback(lambda: seen.append("first"))
        assert context.add_callback(lambda: 1 / 0)
        assert context.add_callback(lambda: seen.append("last"))
        return b"response"

    client = dial(serve({"unary_unary Method": handler}))
    assert client.unary_unary("Method")(b"", timeout=PATIENCE_S) == b"response"
    until(lambda: seen == ["first", "last"])
    assert not contexts[0].is_active()
    assert not contexts[0].add_callback(lambda: seen.append("never"))
    assert seen == ["first", "last"]


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


def test_a_stream_that_nobody_takes_any_more_is_left(serve: Any, dial: Any) -> None:
    ended: list[bool] = []

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            ended.append(True)

    call = dial(serve({"unary_stream Endless": endless})).unary_stream("Endless")(b"", timeout=PATIENCE_S)
    assert len(next(call)) == 1000
    call.cancel()
    until(lambda: ended)
