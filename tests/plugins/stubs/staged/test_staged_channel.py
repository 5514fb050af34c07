"""A staged channel beside what `differential` compares of it: shared, watched, falling back, behind interceptors."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from tests.support.appearance import appearance  # noqa: E402

from ..differential.ends import ARITIES  # noqa: E402
from .conftest import CHAT, COUNT, ECHO  # noqa: E402


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


class _Lazy(grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns a generator for a stream, as OpenTelemetry does."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        yield from continuation(client_call_details, request)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        yield from continuation(client_call_details, request_iterator)


class _Eager(grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Returns an iterator around a call that is under way."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return itertools.chain(continuation(client_call_details, request_iterator))


class _Failing(grpc.UnaryUnaryClientInterceptor):
    """Raises an error of gRPC's class that has neither code nor metadata."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        raise grpc.RpcError("the proxy says no")


def _intercept(monkeypatch: pytest.MonkeyPatch, interceptor: Any) -> None:
    plain = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **n: grpc.intercept_channel(plain(*a, **n), interceptor))


@pytest.mark.parametrize("interceptor", [_Lazy(), _Eager()], ids=["lazy", "eager"])
@pytest.mark.parametrize("primary", ["grpc", "shm"])
def test_streams_behind_an_interceptor_are_answered_and_compared(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, interceptor: Any, primary: str
) -> None:
    _intercept(monkeypatch, interceptor)
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
    _intercept(monkeypatch, _Lazy())
    with serve().channel() as channel:
        stream = channel.unary_stream(COUNT)(b"abc", timeout=PATIENCE_S)
        assert next(stream) == b"a"
        del stream
        assert policy.only().primary.transport == "grpc"


@pytest.mark.parametrize("future", [False, True])
def test_an_error_of_an_interceptor_reaches_the_program_as_it_is(
    serve: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, future: bool
) -> None:
    _intercept(monkeypatch, _Failing())
    policy.default = Decision("grpc", "", "grpc")
    with serve().channel() as channel:
        echo = channel.unary_unary(ECHO)
        call = (lambda: echo.future(b"x", timeout=PATIENCE_S).result()) if future else (lambda: echo(b"x"))
        with pytest.raises(grpc.RpcError, match="the proxy says no"):
            call()
