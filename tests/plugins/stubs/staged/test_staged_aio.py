"""Staged channels of grpc.aio: the same, and nothing on the program's loop but its own calls."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision

grpc = pytest.importorskip("grpc")

ECHO, COUNT, SUM, CHAT = (f"/t.Test/{name}" for name in ("Echo", "Count", "Sum", "Chat"))
BOTH_WAYS = pytest.mark.parametrize("decision", [Decision("grpc", "shm"), Decision("shm", "grpc")], ids=["grpc", "shm"])


async def letters(text: bytes) -> AsyncIterator[bytes]:
    for letter in text:
        yield bytes([letter])


@BOTH_WAYS
async def test_every_arity_and_style_is_answered_by_the_authority_and_compared(
    pair: Any, policy: Any, decision: Decision
) -> None:
    policy.decision = decision

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
    for one in policy.noted:
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


@BOTH_WAYS
async def test_status_and_metadata_of_both_are_noted(serve: Any, policy: Any, decision: Decision) -> None:
    def refuse(request: bytes, context: Any) -> None:
        context.send_initial_metadata([("head", "1")])
        context.set_trailing_metadata([("tail-bin", b"\x00")])
        context.abort(grpc.StatusCode.NOT_FOUND, dict(context.invocation_metadata())["key"])

    policy.decision = decision
    pair = serve({"unary_unary Refuse": refuse, "unary_stream Refuses": refuse})

    async with pair.aio_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/t.Test/Refuse")(b"", metadata=(("key", "who"),))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "who")
        with pytest.raises(grpc.aio.AioRpcError):
            async for _ in channel.unary_stream("/t.Test/Refuses")(b"", metadata=(("key", "who"),)):
                pass
        await asyncio.to_thread(policy.wait, 2)
    for one in policy.noted:
        assert one.shadow.headers == (("head", "1"),)
        # grpc.aio forgets them when the status was there first: then they are not compared.
        assert (one.primary.headers, "headers" in one.unseen) in (((("head", "1"),), False), ((), True))
        for outcome in (one.primary, one.shadow):
            assert (outcome.code, outcome.details, list(outcome.items)) == ("NOT_FOUND", "who", [])
            assert outcome.trailing == (("tail-bin", b"\x00"),)


async def test_interceptors_stay_outside(pair: Any, policy: Any) -> None:
    class Changing(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            return await continuation(details, request + b"!")

    async with pair.aio_channel(interceptors=[Changing()]) as channel:
        assert await channel.unary_unary(ECHO)(b"x") == b"x!"
        await asyncio.to_thread(policy.wait)
    assert list(policy.only().shadow.items) == [b"x!"]


@BOTH_WAYS
@pytest.mark.parametrize("leave", ["cancel", "drop", "break"])
async def test_a_stream_that_the_caller_leaves_is_noted_as_far_as_it_came(
    serve: Any, policy: Any, decision: Decision, leave: str
) -> None:
    policy.decision = decision

    def count(request: bytes, context: Any) -> Iterator[bytes]:
        for number in range(100_000):
            if not context.is_active():
                return
            yield number.to_bytes(4)

    pair = serve({"unary_stream Count": count})

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


async def test_a_cancelled_call_is_cancelled_and_not_compared(serve: Any, policy: Any) -> None:
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


async def test_a_call_that_is_cancelled_before_it_was_made_concerns_no_transport(pair: Any, policy: Any) -> None:
    async with pair.aio_channel() as channel:
        call = channel.unary_unary(ECHO)(b"never")
        assert call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await channel.unary_unary(ECHO)(b"x") == b"x"
        await asyncio.to_thread(policy.wait)
    assert policy.only().request == b"x"


async def test_a_candidate_that_hangs_delays_neither_calls_nor_the_loop(serve: Any, policy: Any) -> None:
    go_on = threading.Event()
    pair = serve(candidate={"unary_unary Echo": lambda request, _: (go_on.wait(10), request)[1]})

    async with pair.aio_channel() as channel:
        echo = channel.unary_unary(ECHO)
        assert await asyncio.gather(*(echo(bytes([item])) for item in range(80))) == [bytes([i]) for i in range(80)]
        assert {one.why for one in policy.wait(80 - 64)} == {"too many shadows are under way"}
    go_on.set()


@pytest.mark.parametrize("answering", ["grpc", "shm"])
async def test_it_stands_as_the_channel_for_unnamed_methods_stands(pair: Any, policy: Any, answering: str) -> None:
    policy.decision = Decision(answering)
    if answering == "shm":
        pair.target = "127.0.0.1:1"
    else:
        pair.endpoint = f"shm://{unique_name()}"

    async with pair.aio_channel() as channel:
        await channel.channel_ready()
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        assert await channel.unary_unary(ECHO)(b"x") == b"x"
    assert policy.only().primary.transport == answering


async def test_it_gets_ready_where_calls_go_now_this_way_now_that(pair: Any, policy: Any) -> None:
    ways = itertools.cycle([Decision("shm"), Decision("grpc")])
    policy.decide = lambda method: next(ways)

    async with pair.aio_channel() as channel:
        await channel.channel_ready()


async def test_after_closing_calls_are_refused_as_always(pair: Any, policy: Any) -> None:
    channel = pair.aio_channel()
    await channel.close()
    with pytest.raises(grpc.aio.UsageError):
        await channel.unary_unary(ECHO)(b"x")
    assert policy.noted == []
