"""A read that shared memory cannot answer is answered by gRPC; what is no read is never made again."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.messages.methods import Effect
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import Comparison
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

import lucky_transport_stubs  # noqa: E402 - needs grpc

ECHO, COUNT = "/t.Test/Echo", "/t.Test/Count"
READ_OVER_SHM = [Decision("shm", "grpc", "canary 10%"), Decision("shm", "grpc", "shm")]
UNKNOWN_OVER_SHM = Decision("shm", "", "shm")  # the table does not know /t.Test: it may change the world

#: Makes one call over a channel and returns its answer, all items of a stream joined.
WAYS: dict[str, Callable[[Any], Any]] = {
    "call": lambda channel: channel.unary_unary(ECHO)(b"xy", timeout=PATIENCE_S),
    "with_call": lambda channel: channel.unary_unary(ECHO).with_call(b"xy")[0],
    "future": lambda channel: channel.unary_unary(ECHO).future(b"xy", timeout=PATIENCE_S).result(PATIENCE_S),
    "stream": lambda channel: b"".join(channel.unary_stream(COUNT)(b"xy", timeout=PATIENCE_S)),
    "waits": lambda channel: channel.unary_unary(ECHO)(b"xy", PATIENCE_S, None, None, True),
    "waiting_stream": lambda channel: b"".join(channel.unary_stream(COUNT)(b"xy", wait_for_ready=True, timeout=10)),
}


async def _unary(channel: Any, **options: Any) -> bytes:
    return await channel.unary_unary(ECHO)(b"xy", timeout=PATIENCE_S, **options)


async def _stream(channel: Any, **options: Any) -> bytes:
    return b"".join([item async for item in channel.unary_stream(COUNT)(b"xy", timeout=PATIENCE_S, **options)])


AIO_WAYS: dict[str, Callable[[Any], Any]] = {
    "call": _unary,
    "stream": _stream,
    "waits": lambda channel: _unary(channel, wait_for_ready=True),
    "waiting_stream": lambda channel: _stream(channel, wait_for_ready=True),
}


def over_aio(pair: Any, way: Callable[[Any], Any]) -> bytes:
    async def program() -> bytes:
        async with pair.aio_channel() as channel:
            return await way(channel)

    return asyncio.run(asyncio.wait_for(program(), 2 * PATIENCE_S))


def check_fallback(comparison: Comparison, stage: str) -> None:
    """Check that gRPC answered and that the candidate's failure is evidence."""
    assert comparison.shadow is not None, comparison.why
    assert comparison.decision == Decision("grpc", "shm", stage)
    assert (comparison.primary.transport, comparison.primary.code) == ("grpc", "OK")
    assert (comparison.shadow.transport, comparison.shadow.code) == ("shm", "UNAVAILABLE")
    assert b"".join(comparison.primary.items) == b"xy"


@pytest.mark.parametrize("decision", READ_OVER_SHM, ids=lambda decision: decision.stage)
@pytest.mark.parametrize("way", WAYS)
def test_an_unreachable_engine_is_answered_for_by_grpc(
    pair: Any, policy: Any, decision: Decision, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    pair.endpoint, policy.decision = f"shm://{unique_name()}", decision
    with caplog.at_level(logging.WARNING, "lucky_transport"), pair.channel() as channel:
        assert [WAYS[way](channel) for _ in range(2)] == [b"xy"] * 2
        for comparison in policy.wait(2):
            check_fallback(comparison, decision.stage)
    said = [record.getMessage() for record in caplog.records if "gRPC answers instead" in record.getMessage()]
    assert len(said) == 1, "once for each method"
    assert "shared memory did not answer (failed to connect" in said[0]


@pytest.mark.parametrize("decision", READ_OVER_SHM, ids=lambda decision: decision.stage)
@pytest.mark.parametrize("way", AIO_WAYS)
def test_asyncio_an_unreachable_engine_is_answered_for_by_grpc(
    pair: Any, policy: Any, decision: Decision, way: str
) -> None:
    pair.endpoint, policy.decision = f"shm://{unique_name()}", decision
    assert over_aio(pair, AIO_WAYS[way]) == b"xy"
    check_fallback(policy.only(), decision.stage)


class Dying:
    """A candidate that ends without a word as soon as it has been asked something; `asked` counts that."""

    def __init__(self, handlers_of: Callable[[Any], Any]) -> None:
        self.asked = 0
        self.endpoint = f"shm://{unique_name()}"
        self._server = lucky_transport_stubs.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((handlers_of({"unary_unary Echo": self._die}),))
        self._server.add_insecure_port(self.endpoint)
        self._server.start()
        self._over = threading.Event()

    def _die(self, request: bytes, context: Any) -> bytes:
        self.asked += 1
        self._server.stop(None)
        self._over.wait(PATIENCE_S)
        return b"too late"

    def close(self) -> None:
        self._over.set()
        self._server.stop(None).wait(PATIENCE_S)


@pytest.fixture
def dying(pair: Any, handlers_of: Callable[[Any], Any]) -> Iterator[Dying]:
    candidate = Dying(handlers_of)
    pair.endpoint = candidate.endpoint
    yield candidate
    candidate.close()


@pytest.mark.parametrize("way", ["call", "with_call", "future"])
def test_an_engine_that_dies_in_a_read_is_answered_for_by_grpc(pair: Any, policy: Any, dying: Dying, way: str) -> None:
    policy.decision = READ_OVER_SHM[0]
    with pair.channel() as channel:
        assert WAYS[way](channel) == b"xy"
        check_fallback(policy.only(), "canary 10%")
    assert dying.asked == 1


@pytest.mark.parametrize("way", ["call", "future"])
def test_an_idempotent_call_is_made_again_where_the_engine_dies_in_it(
    pair: Any, policy: Any, dying: Dying, way: str
) -> None:
    policy.decision = Decision("shm", "", "canary 10%", Effect.IDEMPOTENT)
    with pair.channel() as channel:
        assert WAYS[way](channel) == b"xy"
        comparison = policy.only()
    assert (comparison.primary.transport, comparison.shadow.transport) == ("grpc", "shm")
    assert (comparison.primary.code, comparison.shadow.code, dying.asked) == ("OK", "UNAVAILABLE", 1)


def test_an_idempotent_call_never_has_a_shadow(pair: Any, policy: Any) -> None:
    policy.decision = Decision("grpc", "shm", "shadow", Effect.IDEMPOTENT)
    with pair.channel() as channel:
        assert WAYS["call"](channel) == b"xy"
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
    policy.decision = decision
    with pair.channel() as channel, pytest.raises(grpc.RpcError) as raised:
        WAYS["call"](channel)
    assert (raised.value.code(), dying.asked) == (grpc.StatusCode.UNAVAILABLE, 1)


def test_asyncio_an_engine_that_dies_in_a_read_is_answered_for_by_grpc(pair: Any, policy: Any, dying: Dying) -> None:
    policy.decision = READ_OVER_SHM[0]
    assert over_aio(pair, _unary) == b"xy"
    check_fallback(policy.only(), "canary 10%")
    assert dying.asked == 1


@pytest.mark.parametrize(
    "decision", [UNKNOWN_OVER_SHM, Decision("shm", "grpc", "complete")], ids=["no read", "complete"]
)
@pytest.mark.parametrize("way", ["call", "future", "stream"])
def test_what_is_no_read_or_complete_is_never_made_again(serve: Any, policy: Any, decision: Decision, way: str) -> None:
    asked: list[bytes] = []

    def note(request: bytes, _: Any) -> bytes:
        asked.append(request)
        return request

    pair = serve({"unary_unary Echo": note, "unary_stream Count": lambda request, _: iter([note(request, None)])})
    pair.endpoint, policy.decision = f"shm://{unique_name()}", decision
    with pair.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        WAYS[way](channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.RpcError):
        over_aio(pair, AIO_WAYS["stream" if way == "stream" else "call"])
    for comparison in policy.wait(2):
        assert (comparison.primary.transport, comparison.primary.code) == ("shm", "UNAVAILABLE")
    assert asked == [] or decision.shadow, "only the shadow of a read may have been asked"


def test_a_future_tells_its_caller_of_the_answer_only(pair: Any, policy: Any, dying: Dying) -> None:
    """Callbacks, code and metadata are those of the call that answered, and come once."""
    policy.decision = READ_OVER_SHM[0]
    told: list[Any] = []
    over = threading.Event()
    with pair.channel() as channel:
        future = channel.unary_unary(ECHO).future(b"xy")
        future.add_done_callback(lambda done: (told.append(done.code()), over.set()))
        assert over.wait(PATIENCE_S)
        assert future.result(PATIENCE_S) == b"xy"
        assert future.done()
        assert not future.running()
        assert future.exception() is None
        assert future.traceback() is None
        assert told == [grpc.StatusCode.OK]


def test_a_future_that_its_caller_cancelled_is_not_made_again(serve: Any, policy: Any) -> None:
    go_on = threading.Event()
    pair = serve(candidate={"unary_unary Echo": lambda request, _: (go_on.wait(PATIENCE_S), request)[1]})
    policy.decision = READ_OVER_SHM[0]
    with pair.channel() as channel:
        future = channel.unary_unary(ECHO).future(b"xy")
        assert future.cancel()
        assert future.cancelled()
        with pytest.raises(grpc.FutureCancelledError):
            future.result(PATIENCE_S)
        assert policy.only().primary.transport == "shm"
        go_on.set()


def test_an_error_of_the_engine_is_an_answer(serve: Any, policy: Any) -> None:
    def refuse(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.NOT_FOUND, "over shm")

    pair = serve(candidate={"unary_unary Echo": refuse})
    policy.decision = READ_OVER_SHM[0]
    with pair.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(ECHO)(b"xy")
    assert caught.value.details() == "over shm"
    assert policy.only().primary.transport == "shm"


def test_a_future_ends_as_its_engine_ended_where_grpc_cannot_be_asked(pair: Any, policy: Any) -> None:
    """Its channel may be closed between the engine's death and the second call."""
    pair.endpoint, policy.decision = f"shm://{unique_name()}", READ_OVER_SHM[0]
    over = threading.Event()
    with pair.channel() as channel:
        channel._sides["grpc"].close()
        future = channel.unary_unary(ECHO).future(b"xy", timeout=PATIENCE_S)
        future.add_done_callback(lambda _: over.set())
        with pytest.raises(grpc.RpcError):
            future.result(PATIENCE_S)
        assert future.code() is grpc.StatusCode.UNAVAILABLE
        assert over.wait(PATIENCE_S)
        assert policy.only().shadow is not None


def test_a_future_ends_as_its_engine_ended_where_the_request_cannot_be_serialized_again(pair: Any, policy: Any) -> None:
    pair.endpoint, policy.decision = f"shm://{unique_name()}", READ_OVER_SHM[0]
    requests = iter([b"xy"])
    with pair.channel() as channel:
        future = channel.unary_unary(ECHO, lambda _: next(requests)).future(None, timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError):
            future.result(PATIENCE_S)
        assert future.code() is grpc.StatusCode.UNAVAILABLE
        assert future.done()


async def test_asyncio_a_call_ends_as_its_engine_ended_where_grpc_cannot_be_asked(pair: Any, policy: Any) -> None:
    pair.endpoint, policy.decision = f"shm://{unique_name()}", READ_OVER_SHM[0]
    async with pair.aio_channel() as channel:
        channel._channel._sides["grpc"].close()
        over = asyncio.Event()
        for call in (channel.unary_unary(ECHO)(b"xy"), channel.unary_stream(COUNT)(b"xy")):
            over.clear()
            call.add_done_callback(lambda _: over.set())
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            await over.wait()
