"""Calls of a staged channel: the caller gets the primary's answer, the policy gets both."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison

grpc = pytest.importorskip("grpc")

from lucky_transport_migration.compare.rules import ComparisonRules  # noqa: E402
from lucky_transport_migration.evidence.call_comparison import compare  # noqa: E402
from lucky_transport_migration.evidence.record import DIFFERENT  # noqa: E402

ECHO, COUNT, SUM, CHAT = (f"/t.Test/{name}" for name in ("Echo", "Count", "Sum", "Chat"))
OVER_SHM = Decision("shm", "grpc", "shm")
BOTH = pytest.mark.parametrize("decision", [Decision("grpc", "shm", "shadow"), OVER_SHM], ids=["grpc", "shm"])


def seen(outcome: CallOutcome | None) -> tuple[Any, ...] | None:
    """What must be the same of two answers."""
    return outcome and (list(outcome.items), outcome.code, outcome.details, outcome.headers, outcome.trailing)


def counting(request: bytes, context: Any) -> Iterator[bytes]:
    """Serve a stream until its caller leaves it."""
    for number in range(100_000):
        if not context.is_active():
            return
        yield number.to_bytes(4)


def is_equal(comparison: Comparison) -> bool:
    return comparison.why == "" and seen(comparison.shadow) == seen(comparison.primary)


@BOTH
def test_every_arity_and_way_to_call_is_answered_by_the_authority_and_compared(
    channel: Any, policy: Any, decision: Decision
) -> None:
    policy.default = decision
    echo, add = channel.unary_unary(ECHO), channel.stream_unary(SUM)
    assert echo(b"x", timeout=10) == b"x"
    assert echo.with_call(b"y")[0] == b"y"
    assert echo.future(b"z").result(10) == b"z"
    assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
    assert add(iter([b"a", b"b"])) == b"ab"
    assert add.with_call(iter([b"c"]))[0] == b"c"
    assert add.future(iter([b"d"])).result(10) == b"d"
    assert list(channel.stream_stream(CHAT)(iter([b"a", b"b"]))) == [b"a", b"b"]
    for comparison in policy.wait(8):
        assert is_equal(comparison), comparison
        assert (comparison.primary.transport, comparison.primary.code) == (decision.primary, "OK")
        assert comparison.shadow is not None
        assert comparison.shadow.transport == decision.shadow
        assert not comparison.ended_early
        assert comparison.primary.took_us > 0
        assert comparison.shadow.took_us > 0
        for side in (comparison.primary, comparison.shadow):
            assert (0 < side.first_us <= side.took_us) if comparison.method in (COUNT, CHAT) else side.first_us == 0
        assert ("order between requests and responses" in comparison.unseen) == (comparison.method == CHAT)
    found = {(one.method, str(one.request)): list(one.primary.items) for one in policy.notes}
    assert found[ECHO, str(b"y")] == [b"y"]
    assert found[COUNT, str(b"ab")] == [b"a", b"b"]
    assert found[SUM, str([b"a", b"b"])] == [b"ab"]
    assert found[CHAT, str([b"a", b"b"])] == [b"a", b"b"]


def test_status_details_and_metadata_of_both_are_noted(serve: Any, policy: Any) -> None:
    def refuse(request: bytes, context: Any) -> None:
        sent = [pair for pair in context.invocation_metadata() if pair[0].startswith("key")]
        context.send_initial_metadata(sent)
        context.set_trailing_metadata((("tail-bin", b"\x00"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "nobody here")

    with serve({"unary_unary Refuse": refuse, "unary_stream Refuses": refuse}).channel() as channel:
        metadata = (pair for pair in [("key", "a"), ("key-bin", b"\x01")])
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/t.Test/Refuse")(b"", metadata=metadata)
        assert caught.value.details() == "nobody here"
        with pytest.raises(grpc.RpcError):
            list(channel.unary_stream("/t.Test/Refuses")(b""))
    unary, stream = sorted(policy.wait(2), key=lambda one: one.method)
    assert is_equal(unary)
    assert is_equal(stream)
    assert seen(unary.shadow) == (
        [],
        "NOT_FOUND",
        "nobody here",
        (("key", "a"), ("key-bin", b"\x01")),
        (("tail-bin", b"\x00"),),
    )


@BOTH
def test_a_response_beside_an_error_is_nobodys_answer(serve: Any, policy: Any, decision: Decision) -> None:
    def refuse(request: Any, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        return b"unseen"

    policy.default = decision
    methods = {"unary_unary Refuse": refuse, "stream_unary Refuses": refuse}
    with serve(methods).channel() as channel:
        refused = channel.unary_unary("/t.Test/Refuse")
        with pytest.raises(grpc.RpcError):
            refused(b"")
        assert refused.future(b"").exception(10).code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError):
            channel.stream_unary("/t.Test/Refuses")(iter((b"",)))
    for comparison in policy.wait(3):
        assert (list(comparison.primary.items), comparison.primary.code) == ([], "NOT_FOUND")
        assert comparison.shadow is None or is_equal(comparison)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "NOT_FOUND"])
def test_whatever_status_a_handler_chose_is_its_answer(serve: Any, policy: Any, code: str) -> None:
    policy.default = OVER_SHM

    def echo(_: bytes, context: Any) -> Any:
        over = "shm" if type(context).__init__.__module__.startswith("lucky_transport") else "grpc"
        context.set_trailing_metadata((("over", over),))
        context.abort(grpc.StatusCode[code], "the arm: connection refused")

    with serve({"unary_unary Echo": echo}).channel() as channel:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(ECHO)(b"", timeout=30)
        assert dict(raised.value.trailing_metadata())["over"] == "shm", "it is not asked of the other one"
        found = compare(policy.only(), ComparisonRules())
    assert (found.verdict, found.aspect, found.where) == (DIFFERENT, "trailing", "over")
    assert found.primary.local is False


@BOTH
@pytest.mark.parametrize("leave", ["cancel", "drop"])
def test_a_stream_that_the_caller_leaves_is_compared_as_far_as_both_came(
    serve: Any, policy: Any, decision: Decision, leave: str
) -> None:
    policy.default = decision

    with serve({"unary_stream Count": counting}).channel() as channel:
        call = channel.unary_stream(COUNT)(b"")
        assert next(call) == bytes(4)
        if leave == "cancel":
            call.cancel()
        del call
        gc.collect()
        comparison = policy.only()
    assert comparison.ended_early
    assert comparison.shadow is not None
    common = min(len(comparison.primary.items), len(comparison.shadow.items))
    assert common
    assert comparison.primary.items[:common] == comparison.shadow.items[:common]


def test_a_unary_call_that_is_cancelled_is_not_compared(serve: Any, policy: Any) -> None:
    def wait(request: bytes, context: Any) -> bytes:
        over = threading.Event()
        context.add_callback(over.set)
        over.wait(10)
        return b""

    with serve({"unary_unary Echo": wait}, {"unary_unary Echo": lambda request, _: request}).channel() as channel:
        call = channel.unary_unary(ECHO).future(b"")
        assert call.cancel()
        assert call.cancelled()
        comparison = policy.only()
    assert (comparison.primary.code, comparison.shadow) == ("CANCELLED", None)
    assert comparison.why == "the call did not come to its end"


def test_requests_that_have_not_ended_are_not_sent_again(serve: Any, policy: Any) -> None:
    control = {"stream_unary Sum": lambda requests, _: next(requests)}
    with serve(control).channel() as channel:

        def requests() -> Iterator[bytes]:
            yield b"first"
            policy.wait()
            yield b"late"

        assert channel.stream_unary(SUM)(requests()) == b"first"
        comparison = policy.only()
    assert (comparison.shadow, comparison.why) == (None, "the requests had not ended")


def test_more_requests_than_are_kept_are_not_sent_again(channel: Any, policy: Any) -> None:
    assert channel.stream_unary(SUM)(iter([b"x"] * 300)) == b"x" * 300
    comparison = policy.only()
    assert (comparison.shadow, comparison.why) == (None, "more than 256 requests are not kept")


def test_a_request_that_cannot_be_serialized_concerns_no_transport(channel: Any, policy: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(ECHO, request_serializer=lambda _: 1 / 0)(b"")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert channel.unary_unary(ECHO)(b"x") == b"x"
    assert policy.only().request == b"x"


@pytest.mark.parametrize("end", ["closed", "refused"])
def test_a_change_that_cannot_be_made_is_over(pair: Any, policy: Any, end: str) -> None:
    policy.decisions = {"/t.Test/Set": Decision("grpc")}
    with pair.channel() as channel:
        if end == "closed":
            channel._sides["grpc"].close()
        with pytest.raises((ValueError, TypeError)):
            channel.unary_unary("/t.Test/Set")(b"", timeout="soon" if end == "refused" else None)
        world = channel._routed.world
        assert world.stood_still(world.mark())


async def letters(text: bytes) -> AsyncIterator[bytes]:
    for letter in text:
        yield bytes([letter])


@BOTH
async def test_asyncio_every_arity_and_style_is_answered_by_the_authority_and_compared(
    pair: Any, policy: Any, decision: Decision
) -> None:
    policy.default = decision

    async with pair.aio_channel() as channel:
        assert isinstance(channel, grpc.aio.Channel)
        assert await channel.unary_unary(ECHO, str.encode, bytes.decode)("x", timeout=10) == "x"
        assert [item async for item in channel.unary_stream(COUNT)(b"ab")] == [b"a", b"b"]
        assert await channel.stream_unary(SUM)(letters(b"ab")) == b"ab"
        assert [item async for item in channel.stream_stream(CHAT)(letters(b"ab"))] == [b"a", b"b"]
        call = channel.stream_stream(CHAT)()
        await call.write(b"c")
        assert await call.read() == b"c"
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        await asyncio.to_thread(policy.wait, 5)
    found = {}
    for one in policy.notes:
        assert one.why == ""
        assert (one.primary.transport, one.primary.code, one.shadow.code) == (decision.primary, "OK", "OK")
        assert list(one.primary.items) == list(one.shadow.items)
        found[one.method, str(one.request)] = list(one.primary.items)
    assert found == {
        (ECHO, str(b"x")): [b"x"],
        (COUNT, str(b"ab")): [b"a", b"b"],
        (SUM, str([b"a", b"b"])): [b"ab"],
        (CHAT, str([b"a", b"b"])): [b"a", b"b"],
        (CHAT, str([b"c"])): [b"c"],
    }


@BOTH
async def test_asyncio_status_and_metadata_of_both_are_noted(serve: Any, policy: Any, decision: Decision) -> None:
    def refuse(request: bytes, context: Any) -> None:
        context.send_initial_metadata([("head", "1")])
        context.set_trailing_metadata([("tail-bin", b"\x00")])
        context.abort(grpc.StatusCode.NOT_FOUND, dict(context.invocation_metadata())["key"])

    policy.default = decision
    pair = serve({"unary_unary Refuse": refuse, "unary_stream Refuses": refuse})

    async with pair.aio_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/t.Test/Refuse")(b"", metadata=(("key", "who"),))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "who")
        with pytest.raises(grpc.aio.AioRpcError):
            async for _ in channel.unary_stream("/t.Test/Refuses")(b"", metadata=(("key", "who"),)):
                pass
        await asyncio.to_thread(policy.wait, 2)
    for one in policy.notes:
        assert one.shadow.headers == (("head", "1"),)
        # grpc.aio forgets them when the status was there first: then they are not compared.
        assert (one.primary.headers, "headers" in one.unseen) in (((("head", "1"),), False), ((), True))
        for outcome in (one.primary, one.shadow):
            assert (outcome.code, outcome.details, list(outcome.items)) == ("NOT_FOUND", "who", [])
            assert outcome.trailing == (("tail-bin", b"\x00"),)


@BOTH
@pytest.mark.parametrize("leave", ["cancel", "drop", "break"])
async def test_asyncio_a_stream_that_the_caller_leaves_is_noted_as_far_as_it_came(
    serve: Any, policy: Any, decision: Decision, leave: str
) -> None:
    policy.default = decision

    pair = serve({"unary_stream Count": counting})

    async with pair.aio_channel() as channel:
        call = channel.unary_stream(COUNT)(b"")
        assert await call.read() == bytes(4)
        if leave == "cancel":
            call.cancel()
        elif leave == "drop":
            del call
    await asyncio.to_thread(policy.wait)
    comparison = policy.only()
    assert comparison.ended_early
    assert list(comparison.primary.items[:1]) == list(comparison.shadow.items[:1]) == [bytes(4)]


async def test_asyncio_a_cancelled_call_is_cancelled_and_not_compared(serve: Any, policy: Any) -> None:
    go_on = threading.Event()

    def wait(request: bytes, context: Any) -> bytes:
        context.add_callback(go_on.set)
        go_on.wait(10)
        return b""

    pair = serve({"unary_unary Echo": wait}, {"unary_unary Echo": lambda request, _: request})

    async with pair.aio_channel() as channel:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(channel.unary_unary(ECHO)(b"x"), 0.2)
        await asyncio.to_thread(policy.wait)
    go_on.set()
    comparison = policy.only()
    assert (comparison.shadow, comparison.why) == (None, "the call did not come to its end")


async def test_asyncio_a_call_that_is_cancelled_before_it_was_made_concerns_no_transport(
    pair: Any, policy: Any
) -> None:
    async with pair.aio_channel() as channel:
        call = channel.unary_unary(ECHO)(b"never")
        assert call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await channel.unary_unary(ECHO)(b"x") == b"x"
        await asyncio.to_thread(policy.wait)
    assert policy.only().request == b"x"
