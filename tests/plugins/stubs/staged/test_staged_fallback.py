"""A read that shared memory cannot answer is answered by gRPC; what is no read is never made again."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport.messages.methods import Effect
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from ..differential.ends import Ends  # noqa: E402 - needs grpc
from .conftest import COUNT, ECHO  # noqa: E402

READ_OVER_SHM = Decision("shm", "grpc", "canary 10%")
UNKNOWN_OVER_SHM = Decision("shm", "", "shm")  # the table does not know the method: it may change the world

Way = Callable[[Any], bytes]


def over(call: Callable[..., Any], **options: Any) -> Way:
    """Return what makes a call over a channel of its own."""

    def way(pair: Any) -> bytes:
        with pair.channel() as channel:
            return call(channel, timeout=PATIENCE_S, **options)

    return way


def over_aio(call: Callable[..., Any], **options: Any) -> Way:
    """Return the same of asyncio."""

    def way(pair: Any) -> bytes:
        async def program() -> bytes:
            async with pair.aio_channel() as channel:
                return await call(channel, timeout=PATIENCE_S, **options)

        return asyncio.run(asyncio.wait_for(program(), 2 * PATIENCE_S))

    return way


async def _unary(channel: Any, **options: Any) -> bytes:
    return await channel.unary_unary(ECHO)(b"xy", **options)


async def _stream(channel: Any, **options: Any) -> bytes:
    return b"".join([item async for item in channel.unary_stream(COUNT)(b"xy", **options)])


def _blocking(channel: Any, **options: Any) -> bytes:
    return channel.unary_unary(ECHO)(b"xy", **options)


def _future(channel: Any, **options: Any) -> bytes:
    return channel.unary_unary(ECHO).future(b"xy", **options).result(PATIENCE_S)


def _items(channel: Any, **options: Any) -> bytes:
    return b"".join(channel.unary_stream(COUNT)(b"xy", **options))


#: Each makes one call and returns its answer, all items of a stream joined.
WAYS = {
    "call": over(_blocking),
    "future": over(_future),
    "stream": over(_items),
    "positional": over(lambda channel, timeout: channel.unary_unary(ECHO)(b"xy", timeout, None, None, True)),
    "waiting stream": over(_items, wait_for_ready=True),
    "aio": over_aio(_unary),
    "aio stream": over_aio(_stream),
    "aio waits": over_aio(_unary, wait_for_ready=True),
    "aio waiting stream": over_aio(_stream, wait_for_ready=True),
}


def check_fallback(comparison: Any) -> None:
    """Check that gRPC answered and that the candidate's failure is evidence."""
    assert comparison.shadow is not None, comparison.why
    assert comparison.decision == Decision("grpc", "shm", "canary 10%")
    assert (comparison.primary.transport, comparison.primary.code) == ("grpc", "OK")
    assert (comparison.shadow.transport, comparison.shadow.code) == ("shm", "UNAVAILABLE")
    assert b"".join(comparison.primary.items) == b"xy"


@pytest.mark.parametrize("way", WAYS)
def test_an_unreachable_engine_is_answered_for_by_grpc(pair: Any, policy: Any, way: str) -> None:
    pair.endpoint, policy.default = f"shm://{unique_name()}", READ_OVER_SHM
    assert WAYS[way](pair) == b"xy"
    check_fallback(policy.only())


class Dying:
    """A candidate that ends without a word as soon as it has been asked something; `asked` counts that."""

    def __init__(self, ends: Ends) -> None:
        self.asked, self._over = 0, ends.gate()
        self.served = ends.serve({"unary_unary Echo": self._die})

    def _die(self, request: bytes, context: Any) -> bytes:
        self.asked += 1
        self.served.server.stop(None)
        self._over.wait(PATIENCE_S)
        return b"too late"


@pytest.fixture
def dying(pair: Any, ends: Ends) -> Dying:
    candidate = Dying(ends)
    pair.endpoint = candidate.served.target
    return candidate


@pytest.mark.parametrize("way", ["call", "aio"])
def test_an_engine_that_dies_in_a_read_is_answered_for_by_grpc(pair: Any, policy: Any, dying: Dying, way: str) -> None:
    policy.default = READ_OVER_SHM
    assert WAYS[way](pair) == b"xy"
    check_fallback(policy.only())
    assert dying.asked == 1


def test_an_idempotent_call_is_made_again_where_the_engine_dies_in_it(pair: Any, policy: Any, dying: Dying) -> None:
    policy.default = Decision("shm", "", "canary 10%", Effect.IDEMPOTENT)
    assert WAYS["call"](pair) == b"xy"
    check = policy.only()
    assert (check.primary.transport, check.shadow.transport) == ("grpc", "shm")
    assert (check.primary.code, check.shadow.code, dying.asked) == ("OK", "UNAVAILABLE", 1)


def test_an_idempotent_call_never_has_a_shadow(pair: Any, policy: Any) -> None:
    policy.default = Decision("grpc", "shm", "shadow", Effect.IDEMPOTENT)
    assert WAYS["call"](pair) == b"xy"
    assert policy.only().shadow is None


@pytest.mark.parametrize(
    "decision",
    [
        Decision("shm", "", "canary 10%", Effect.VIEW),
        Decision("shm", "", "canary 10%", Effect.WORLD),
        Decision("shm", "", "complete", Effect.IDEMPOTENT),
    ],
    ids=lambda decision: f"{decision.effect.value} at {decision.stage}",
)
def test_a_call_that_may_not_be_repeated_fails_where_the_engine_dies_in_it(
    pair: Any, policy: Any, dying: Dying, decision: Decision
) -> None:
    policy.default = decision
    with pytest.raises(grpc.RpcError) as raised:
        WAYS["call"](pair)
    assert (raised.value.code(), dying.asked) == (grpc.StatusCode.UNAVAILABLE, 1)


@pytest.mark.parametrize(
    "decision", [UNKNOWN_OVER_SHM, Decision("shm", "grpc", "complete")], ids=["no read", "complete"]
)
@pytest.mark.parametrize("way", ["call", "future", "stream", "aio", "aio stream"])
def test_what_is_no_read_or_complete_is_never_made_again(serve: Any, policy: Any, decision: Decision, way: str) -> None:
    asked: list[bytes] = []

    def note(request: bytes, _: Any) -> bytes:
        asked.append(request)
        return request

    pair = serve({"unary_unary Echo": note, "unary_stream Count": lambda request, _: iter([note(request, None)])})
    pair.endpoint, policy.default = f"shm://{unique_name()}", decision
    with pytest.raises(grpc.RpcError) as caught:
        WAYS[way](pair)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    primary = policy.only().primary
    assert (primary.transport, primary.code) == ("shm", "UNAVAILABLE")
    assert asked == [] or decision.shadow, "only the shadow of a read may have been asked"


def test_a_future_whose_engine_dies_fails_and_is_not_made_again(pair: Any, policy: Any, dying: Dying) -> None:
    policy.default = READ_OVER_SHM
    with pytest.raises(grpc.RpcError) as raised:
        WAYS["future"](pair)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (policy.only().primary.transport, dying.asked) == ("shm", 1)


def test_a_future_that_its_caller_cancelled_is_not_made_again(serve: Any, policy: Any) -> None:
    go_on = threading.Event()
    pair = serve(candidate={"unary_unary Echo": lambda request, _: (go_on.wait(PATIENCE_S), request)[1]})
    policy.default = READ_OVER_SHM
    with pair.channel() as channel:
        future = channel.unary_unary(ECHO).future(b"xy")
        assert future.cancel()
        assert future.cancelled()
        with pytest.raises(grpc.FutureCancelledError):
            future.result(PATIENCE_S)
        assert policy.only().primary.transport == "shm"
        go_on.set()


async def test_asyncio_a_call_ends_as_its_engine_ended_where_grpc_cannot_be_asked(pair: Any, policy: Any) -> None:
    pair.endpoint, policy.default = f"shm://{unique_name()}", READ_OVER_SHM
    async with pair.aio_channel() as channel:
        channel._channel._sides["grpc"].close()
        is_over = asyncio.Event()
        for call in (channel.unary_unary(ECHO)(b"xy"), channel.unary_stream(COUNT)(b"xy")):
            is_over.clear()
            call.add_done_callback(lambda _: is_over.set())
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            await is_over.wait()
