"""Calls of a staged channel: the caller gets the primary's answer, the policy gets both; and what `differential` does
not compare of the channel.
"""

import asyncio
import gc
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from tests.support.appearance import appearance  # noqa: E402 - needs grpc
from tests.support.channel_interceptors import Eager, Failing, Lazy, intercept  # noqa: E402

from ..differential.both import ASYNCIO, FREE_WAYS, THREADS, WAYS, Driver  # noqa: E402
from ..differential.ends import ARITIES, path  # noqa: E402
from ..differential.records import REQUESTS  # noqa: E402
from ..differential.samples import ECHOED  # noqa: E402
from .conftest import CHAT, COUNT, ECHO, SHADOWED, SUM, ToldPolicy  # noqa: E402

OVER_SHM = Decision("shm", "grpc", "shm")


@pytest.fixture(params=[SHADOWED, OVER_SHM], ids=["grpc", "shm"])
def decision(request: pytest.FixtureRequest, policy: ToldPolicy) -> Decision:
    """What is decided of all calls."""
    policy.default = request.param
    return request.param


def seen(outcome: Any) -> tuple[Any, ...] | None:
    """What must be the same of two answers."""
    return outcome and (list(outcome.items), outcome.code, outcome.details, outcome.headers, outcome.trailing)


def counting(request: bytes, context: Any) -> Iterator[bytes]:
    """Serve a stream until its caller leaves it."""
    for number in range(100_000):
        if not context.is_active():
            return
        yield number.to_bytes(4)


def is_equal(comparison: Any) -> bool:
    return comparison.why == "" and seen(comparison.shadow) == seen(comparison.primary)


PATHS = {"unary_unary": ECHO, "unary_stream": COUNT, "stream_unary": SUM, "stream_stream": CHAT}


async def test_every_arity_and_way_to_call_is_answered_by_the_authority_and_compared(
    pair: Any, policy: Any, driver: Driver, decision: Decision
) -> None:
    # grpc.aio's `read()` asks a call that is done for no end, so the end that its caller saw is not noted.
    ways = [way for way in WAYS[driver.driver] if "read" not in way.style]
    async with pair.opened(driver) as channel:
        for way in ways:
            seen = repr(await driver.invoke(way, getattr(channel, way.arity)(PATHS[way.arity]), timeout=PATIENCE_S))
            assert all(repr(item) in seen for item in ECHOED[PATHS[way.arity].rpartition("/")[2]]), seen
        await driver.aside(policy.wait, len(ways))
    for one in policy.notes:
        assert (one.why, one.ended_early) == ("", False)
        for side, transport in ((one.primary, decision.primary), (one.shadow, decision.shadow)):
            assert (side.transport, side.code) == (transport, "OK")
            assert list(side.items) == ECHOED[one.method.rpartition("/")[2]]
            assert (0 < side.first_us <= side.took_us) if one.method in (COUNT, CHAT) else side.first_us == 0
            assert side.took_us > 0
        assert str(one.request) == str([*REQUESTS] if one.method in (SUM, CHAT) else REQUESTS[0])
        assert ("order between requests and responses" in one.unseen) == (one.method == CHAT)


async def test_status_details_and_metadata_of_both_are_noted(
    serve: Any, policy: Any, driver: Driver, decision: Decision
) -> None:
    def refuse(request: bytes, context: Any) -> None:
        context.send_initial_metadata([pair for pair in context.invocation_metadata() if pair[0].startswith("key")])
        context.set_trailing_metadata((("tail-bin", b"\x00"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "nobody here")

    sent = (("key", "a"), ("key-bin", b"\x01"))
    pair = serve({"unary_unary Refuse": refuse, "unary_stream Refuses": refuse})
    async with pair.opened(driver) as channel:
        for method, call in (
            (channel.unary_unary(path("Refuse")), driver.attempt),
            (channel.unary_stream(path("Refuses")), driver.taken),
        ):
            metadata: Any = iter(sent) if driver.driver == THREADS else sent
            assert "nobody here" in str(await call(method, b"", metadata=metadata))
        await driver.aside(policy.wait, 2)
    # grpc.aio forgets them when the status was there first: then they are not compared.
    headers = {THREADS: [(sent, False)], ASYNCIO: [(sent, False), ((), True)]}[driver.driver]
    for one in policy.notes:
        assert (one.primary.headers, "headers" in one.unseen) in headers
        assert one.shadow.headers == sent
        for outcome in (one.primary, one.shadow):
            assert (outcome.code, outcome.details, list(outcome.items)) == ("NOT_FOUND", "nobody here", [])
            assert outcome.trailing == (("tail-bin", b"\x00"),)


def test_headers_of_a_stream_without_items_are_compared(serve: Any, policy: Any) -> None:
    """Over gRPC they may be read after the status, when the next call begins already."""

    def nothing(request: Any, context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("belt", "running"),))
        yield from ()

    with serve({"unary_stream Nothing": nothing}).channel() as channel:
        for _ in range(300):
            assert list(channel.unary_stream(path("Nothing"))(b"")) == []
    assert {one.primary.headers for one in policy.wait(300)} == {(("belt", "running"),)}


def test_a_response_beside_an_error_is_nobodys_answer(serve: Any, policy: Any, decision: Decision) -> None:
    def refuse(request: Any, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        return b"unseen"

    methods = {"unary_unary Refuse": refuse, "stream_unary Refuses": refuse}
    with serve(methods).channel() as channel:
        refused = channel.unary_unary(path("Refuse"))
        with pytest.raises(grpc.RpcError):
            refused(b"")
        assert refused.future(b"").exception(10).code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError):
            channel.stream_unary(path("Refuses"))(iter((b"",)))
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
        found = policy.only()
    assert [dict(answer.trailing)["over"] for answer in (found.primary, found.shadow)] == ["shm", "grpc"]
    assert found.primary.is_local is False


@pytest.mark.parametrize("leave", ["cancel", "drop", "break"])
async def test_a_stream_that_the_caller_leaves_is_compared_as_far_as_both_came(
    serve: Any, policy: Any, driver: Driver, decision: Decision, leave: str
) -> None:
    async with serve({"unary_stream Count": counting}).opened(driver) as channel:
        call = channel.unary_stream(COUNT)(b"")
        assert (await driver.first(WAYS[driver.driver][3], call))["items"] == [bytes(4)]
        if leave == "cancel":
            call.cancel()
        elif leave == "drop":
            del call
            gc.collect()
    await driver.aside(policy.wait)
    comparison = policy.only()
    assert comparison.ended_early
    common = min(len(comparison.primary.items), len(comparison.shadow.items))
    assert common
    assert comparison.primary.items[:common] == comparison.shadow.items[:common]


async def test_a_call_that_is_cancelled_is_not_compared(serve: Any, policy: Any, driver: Driver) -> None:
    begun, over = threading.Event(), threading.Event()

    def wait(request: bytes, context: Any) -> bytes:
        context.add_callback(over.set)
        begun.set()
        over.wait(PATIENCE_S)
        return b""

    pair, way = serve({"unary_unary Echo": wait}, {"unary_unary Echo": lambda request, _: request}), FREE_WAYS
    async with pair.opened(driver) as channel:
        call = driver.start(way[driver.driver][0], channel.unary_unary(ECHO))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        assert call.cancel()
        comparison = await asyncio.to_thread(policy.only)
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
    policy.decisions = {path("Set"): Decision("grpc")}
    with pair.channel() as channel:
        if end == "closed":
            channel._sides["grpc"].close()
        with pytest.raises((ValueError, TypeError)):
            channel.unary_unary(path("Set"))(b"", timeout="soon" if end == "refused" else None)
        world = channel._routed.world
        assert world.stood_still(world.mark())


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


# --- a channel beside what `differential` compares of it: shared, falling back, behind interceptors ---


def test_many_threads_may_share_it(channel: Any, policy: Any) -> None:
    echo = channel.unary_unary(ECHO)

    def call(number: int) -> bytes:
        policy.default = Decision(("grpc", "shm")[number % 2])
        return echo(number.to_bytes(2))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(200))) == [number.to_bytes(2) for number in range(200)]
    assert sorted(one.request for one in policy.wait(200)) == [number.to_bytes(2) for number in range(200)]
    assert all(list(one.primary.items) == [one.request] for one in policy.notes)


async def test_asyncio_interceptors_stay_outside(pair: Any, policy: Any) -> None:
    class Changing(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            return await continuation(details, request + b"!")

    async with pair.aio_channel(interceptors=[Changing()]) as channel:
        assert await channel.unary_unary(ECHO)(b"x") == b"x!"
        await asyncio.to_thread(policy.wait)
    assert list(policy.only().shadow.items) == [b"x!"]


async def test_asyncio_it_gets_ready_where_calls_go_now_this_way_now_that(pair: Any, policy: Any) -> None:
    ways = itertools.cycle([Decision("shm"), Decision("grpc")])
    policy.decide = lambda method: next(ways)

    async with pair.aio_channel() as channel:
        await channel.channel_ready()


@pytest.fixture
def shown(pair: Any, policy: Any) -> Any:
    """Two servers; none answers over shared memory, and gRPC answers instead. `differential` has the other stages."""
    policy.default = Decision("shm", "grpc", "canary 10%")
    pair.endpoint = f"shm://{unique_name()}"
    return pair


def test_its_channel_and_methods_do(shown: Any) -> None:
    with grpc.insecure_channel(shown.target) as real, shown.channel() as staged:
        assert appearance(staged, "channel") == appearance(real, "channel")
        assert staged._channel.target() == real._channel.target()
        for arity in ARITIES:
            theirs, ours = (getattr(channel, arity)(ECHO) for channel in (real, staged))
            assert appearance(ours, "method") == appearance(theirs, "method")
            assert (ours._method, ours._channel.target()) == (theirs._method, theirs._channel.target())


def test_its_calls_do(shown: Any) -> None:
    def looks(channel: Any) -> list[Any]:
        future = channel.unary_unary(ECHO).future(b"x", timeout=PATIENCE_S)
        assert future.result(PATIENCE_S) == b"x"
        stream = channel.unary_stream(COUNT)(b"xy", timeout=PATIENCE_S)
        assert b"".join(stream) == b"xy"
        state = future._state
        names = {name for name in dir(future) if not name.startswith("_")}
        return [appearance(future, "call"), appearance(stream, "call"), state.code, state.due, names]

    with grpc.insecure_channel(shown.target) as real, shown.channel() as staged:
        *theirs, their_names = looks(real)
        *ours, our_names = looks(staged)
        assert ours == theirs
        assert their_names <= our_names


async def test_asyncio_its_channel_methods_and_calls_do(shown: Any) -> None:
    async def looks(channel: Any) -> list[Any]:
        seen: list[Any] = [appearance(channel, "channel"), getattr(channel._channel, "target", None)]
        for arity in ARITIES:
            seen.append(appearance(getattr(channel, arity)(ECHO), "method"))
        call = channel.unary_unary(ECHO)(b"x", timeout=PATIENCE_S)
        seen.append(appearance(call))
        assert await call == b"x"
        return seen

    async with grpc.aio.insecure_channel(shown.target) as real, shown.aio_channel() as staged:
        assert await looks(staged) == await looks(real)


@pytest.mark.parametrize("interceptor", [Lazy(), Eager()], ids=["lazy", "eager"])
@pytest.mark.parametrize("primary", ["grpc", "shm"])
def test_streams_behind_an_interceptor_are_answered_and_compared(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, interceptor: Any, primary: str
) -> None:
    intercept(monkeypatch, interceptor)
    policy.default = Decision(primary, "shm" if primary == "grpc" else "grpc", "shadow")
    with serve().channel() as channel:
        assert list(channel.unary_stream(COUNT)(b"abc", timeout=PATIENCE_S)) == [b"a", b"b", b"c"]
        assert list(channel.stream_stream(CHAT)(iter([b"1", b"2"]), timeout=PATIENCE_S)) == [b"1", b"2"]
        assert channel.unary_unary(ECHO)(b"x", timeout=PATIENCE_S) == b"x"
        assert channel.unary_unary(ECHO).future(b"y", timeout=PATIENCE_S).result() == b"y"
        noted = policy.wait(4)
    assert {one.primary.code for one in noted} == {"OK"}
    answered = [one for one in noted if one.shadow is not None]
    assert answered
    for one in answered:
        assert one.shadow.code == "OK"
        assert list(one.shadow.items) == list(one.primary.items)


def test_a_stream_that_its_program_leaves_ends(serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    intercept(monkeypatch, Lazy())
    with serve().channel() as channel:
        stream = channel.unary_stream(COUNT)(b"abc", timeout=PATIENCE_S)
        assert next(stream) == b"a"
        del stream
        assert policy.only().primary.transport == "grpc"


@pytest.mark.parametrize("future", [False, True])
def test_an_error_of_an_interceptor_reaches_the_program_as_it_is(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, future: bool
) -> None:
    intercept(monkeypatch, Failing())
    policy.default = Decision("grpc", "", "grpc")
    with serve().channel() as channel:
        echo = channel.unary_unary(ECHO)
        call = (lambda: echo.future(b"x", timeout=PATIENCE_S).result()) if future else (lambda: echo(b"x"))
        with pytest.raises(grpc.RpcError, match="the proxy says no"):
            call()
