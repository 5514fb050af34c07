"""A read that shared memory cannot answer is answered by gRPC; what is no read is never made again."""

import asyncio
import threading
from typing import Any

import pytest

from lucky_transport.messages.methods import Effect
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from ..differential.both import WAYS, Driver  # noqa: E402 - needs grpc
from ..differential.ends import Ends  # noqa: E402
from ..differential.records import REQUESTS, Record  # noqa: E402
from ..differential.samples import ECHOED  # noqa: E402
from .conftest import COUNT, ECHO  # noqa: E402

READ_OVER_SHM = Decision("shm", "grpc", "canary 10%")
UNKNOWN_OVER_SHM = Decision("shm", "", "shm")  # the table does not know the method: it may change the world

PATHS = {"unary_unary": ECHO, "unary_stream": COUNT}
#: By driver, every way to make a call of one request; grpc.aio's `read()` asks a call that is done for no end.
UNARY_WAYS = {
    driver: [way for way in ways if way.arity in PATHS and way.style != "read"] for driver, ways in WAYS.items()
}


def unreachable(pair: Any) -> None:
    """Have nobody answer over shared memory."""
    pair.endpoint = f"shm://{unique_name()}"


async def call(pair: Any, driver: Driver) -> Record:
    """Make a unary call over a channel of its own; return what comes of it."""
    async with pair.opened(driver) as channel:
        return await driver.attempt(channel.unary_unary(ECHO), REQUESTS[0], timeout=PATIENCE_S)


def check_fallback(comparison: Any) -> None:
    """Check that gRPC answered and that the candidate's failure is evidence."""
    assert comparison.shadow is not None, comparison.why
    assert comparison.decision == Decision("grpc", "shm", "canary 10%")
    assert (comparison.primary.transport, comparison.primary.code) == ("grpc", "OK")
    assert (comparison.shadow.transport, comparison.shadow.code) == ("shm", "UNAVAILABLE")
    assert b"".join(comparison.primary.items) == REQUESTS[0]


@pytest.mark.parametrize("waits", [None, True])
async def test_an_unreachable_engine_is_answered_for_by_grpc(
    pair: Any, policy: Any, driver: Driver, waits: bool | None
) -> None:
    unreachable(pair)
    policy.default, options = READ_OVER_SHM, {"timeout": PATIENCE_S, "wait_for_ready": waits}
    async with pair.opened(driver) as channel:
        for way in UNARY_WAYS[driver.driver]:
            path = PATHS[way.arity]
            seen = repr(await driver.invoke(way, getattr(channel, way.arity)(path), **options))
            assert all(repr(item) in seen for item in ECHOED[path.rpartition("/")[2]]), seen
        await driver.aside(policy.wait, len(UNARY_WAYS[driver.driver]))
    for comparison in policy.notes:
        check_fallback(comparison)


def test_a_call_that_waits_by_a_positional_argument_is_answered_for_by_grpc(pair: Any, policy: Any) -> None:
    unreachable(pair)
    policy.default = READ_OVER_SHM
    with pair.channel() as channel:
        assert channel.unary_unary(ECHO)(REQUESTS[0], PATIENCE_S, None, None, True) == REQUESTS[0]
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


async def test_an_engine_that_dies_in_a_read_is_answered_for_by_grpc(
    pair: Any, policy: Any, dying: Dying, driver: Driver
) -> None:
    policy.default = READ_OVER_SHM
    assert await call(pair, driver) == {"value": REQUESTS[0]}
    check_fallback(policy.only())
    assert dying.asked == 1


async def test_an_idempotent_call_is_made_again_where_the_engine_dies_in_it(
    pair: Any, policy: Any, dying: Dying, driver: Driver
) -> None:
    policy.default = Decision("shm", "", "canary 10%", Effect.IDEMPOTENT)
    assert await call(pair, driver) == {"value": REQUESTS[0]}
    check = policy.only()
    assert (check.primary.transport, check.shadow.transport) == ("grpc", "shm")
    assert (check.primary.code, check.shadow.code, dying.asked) == ("OK", "UNAVAILABLE", 1)


async def test_an_idempotent_call_never_has_a_shadow(pair: Any, policy: Any, driver: Driver) -> None:
    policy.default = Decision("grpc", "shm", "shadow", Effect.IDEMPOTENT)
    assert await call(pair, driver) == {"value": REQUESTS[0]}
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
async def test_a_call_that_may_not_be_repeated_fails_where_the_engine_dies_in_it(
    pair: Any, policy: Any, dying: Dying, driver: Driver, decision: Decision
) -> None:
    policy.default = decision
    assert ((await call(pair, driver))["raised"]["code"], dying.asked) == ("UNAVAILABLE", 1)


@pytest.mark.parametrize(
    "decision", [UNKNOWN_OVER_SHM, Decision("shm", "grpc", "complete")], ids=["no read", "complete"]
)
async def test_what_is_no_read_or_complete_is_never_made_again(
    serve: Any, policy: Any, driver: Driver, decision: Decision
) -> None:
    asked: list[bytes] = []

    def note(request: bytes, _: Any) -> bytes:
        asked.append(request)
        return request

    pair = serve({"unary_unary Echo": note, "unary_stream Count": lambda request, _: iter([note(request, None)])})
    unreachable(pair)
    policy.default, ways = decision, UNARY_WAYS[driver.driver]
    async with pair.opened(driver) as channel:
        for way in ways:
            method = getattr(channel, way.arity)(PATHS[way.arity])
            assert "UNAVAILABLE" in repr(await driver.invoke(way, method, timeout=PATIENCE_S))
        await driver.aside(policy.wait, len(ways))
    assert {(one.primary.transport, one.primary.code) for one in policy.notes} == {("shm", "UNAVAILABLE")}
    assert asked == [] or decision.shadow, "only the shadow of a read may have been asked"


def test_a_future_whose_engine_dies_fails_and_is_not_made_again(pair: Any, policy: Any, dying: Dying) -> None:
    policy.default = READ_OVER_SHM
    with pair.channel() as channel:
        future = channel.unary_unary(ECHO).future(REQUESTS[0], timeout=PATIENCE_S)
        assert future.code() is grpc.StatusCode.UNAVAILABLE
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
    unreachable(pair)
    policy.default = READ_OVER_SHM
    async with pair.aio_channel() as channel:
        channel._channel._sides["grpc"].closing()  # `close` comes below: a second one writes to freed memory
        is_over = asyncio.Event()
        for call in (channel.unary_unary(ECHO)(b"xy"), channel.unary_stream(COUNT)(b"xy")):
            is_over.clear()
            call.add_done_callback(lambda _: is_over.set())
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            await is_over.wait()
