"""The service config of a channel: retries, timeouts and `waitForReady` of its methods."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, WAYS, AioEnds, Driver, Held, OverThreads, Read, echo
from ..ends import SERVICE, Ends, method_handler, path
from ..records import PATIENCE_S, Record, Way, entries, invoke
from ..registry import each
from ..samples import POLICY, PUSHBACKS, SLOW, WRONG, of_json, options

RETRIED = options({"retryPolicy": POLICY})
#: The first way of each driver, which is a unary one.
ONE_WAY = {driver: ways[:1] for driver, ways in WAYS.items()}
#: Those that make no second attempt while they write.
READY_WAYS = {**FREE_WAYS, ASYNCIO: [way for way in FREE_WAYS[ASYNCIO] if "write" not in way.style]}


class Flaky:
    """Fails its first calls, before or after it `says` something, and then responds with what was sent."""

    def __init__(
        self, ends: Driver, failures: int, says: Callable[[Any], Awaitable[Any]] | None = None, code: str = ""
    ) -> None:
        self._failures = failures
        self._says = says
        self._code = grpc.StatusCode[code or "UNAVAILABLE"]
        self._ends = ends
        self.met: list[Any] = []
        self.begun, self.begun_twice = ends.flag(), ends.flag()

    def of(self, way: Way) -> Any:
        """Return the handler of a method; a stream says more at its end."""
        return self._ends.behaviour(way.arity, self.answer, last=(b"last",))

    async def answer(self, read: Read, context: Any) -> bytes:
        """Respond, or fail."""
        payload = await read()
        self.met.append((payload, entries(context.invocation_metadata())))
        self.begun.set()
        if len(self.met) == 2:
            self.begun_twice.set()
        if len(self.met) <= self._failures:
            if self._says is not None:
                await self._says(context)
            context.set_trailing_metadata((("attempt", str(len(self.met))),))
            await context.abort(self._code, "not yet")
        return payload


async def _call(ends: Driver, way: Way, flaky: Flaky, given: Any = RETRIED, **more: Any) -> Record:
    method = await ends.method(way.arity, flaky.of(way), channel_options=given)
    return {"call": await ends.invoke(way, method, **more), "met": flaky.met}


@each(BOTH, way=WAYS, failures=(0, 1, 2, 3))
async def is_retried(ends: Driver, way: Way, failures: int) -> Record:
    return await _call(ends, way, Flaky(ends, failures))


@each((THREADS,), way=WAYS)
async def metadata_of_the_caller_come_after(ends: Driver, way: Way) -> Record:
    sent = (("x", "y"), ("grpc-previous-rpc-attempts", "7"), ("raw-bin", b"\x00"))
    return await _call(ends, way, Flaky(ends, 1), metadata=sent, timeout=PATIENCE_S)


@each(BOTH, way=WAYS)
async def another_code_is_not_retried(ends: Driver, way: Way) -> Record:
    return await _call(ends, way, Flaky(ends, 1, code="ABORTED"))


@each(BOTH, way=WAYS)
async def retries_are_switched_off(ends: Driver, way: Way) -> Record:
    return await _call(ends, way, Flaky(ends, 1), (*RETRIED, ("grpc.enable_retries", 0)))


@each((THREADS,), attempts=("4", 5, 9))
async def attempts_are_at_most_five(ends: Driver, attempts: Any) -> Record:
    policy = {**POLICY, "maxAttempts": attempts}
    return await _call(ends, WAYS[THREADS][0], Flaky(ends, 9), options({"retryPolicy": policy}))


@each(BOTH, way=WAYS, headers=((), (("first", "1"),)))
async def initial_metadata_commit(ends: Driver, way: Way, headers: Any) -> Record:
    return await _call(ends, way, Flaky(ends, 1, lambda context: context.send_initial_metadata(headers)))


# Not with streams of requests over asyncio, which end at times with "Internal error from Core" in grpcio 1.60.
@each(
    BOTH,
    way={
        THREADS: [way for way in WAYS[THREADS] if way.arity.endswith("stream")],
        ASYNCIO: [way for way in WAYS[ASYNCIO] if way.arity == "unary_stream"],
    },
)
async def a_message_commits(ends: Driver, way: Way) -> Record:
    flaky = Flaky(ends, 9)
    behaviour = ends.behaviour(way.arity, flaky.answer, b"first")
    method = await ends.method(way.arity, behaviour, channel_options=RETRIED)
    return {"call": await ends.invoke(way, method), "met": flaky.met}


@each(BOTH, way={**ONE_WAY, THREADS: [way for way in WAYS[THREADS] if way.arity.endswith("unary")]})
async def a_response_with_a_code_commits(ends: Driver, way: Way) -> Record:
    met: list[Any] = []

    async def answer(read: Read, context: Any) -> bytes:
        met.append(await read())
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b"and yet a response"

    method = await ends.method(way.arity, ends.behaviour(way.arity, answer), channel_options=RETRIED)
    return {"call": await ends.invoke(way, method), "met": met}


@each(
    BOTH,
    way={**ONE_WAY, THREADS: [Way("unary_unary", "blocking"), Way("unary_stream", "iterator")]},
    pushback=PUSHBACKS,
)
async def the_server_says_when(ends: Driver, way: Way, pushback: str) -> Record:
    met: list[int] = []

    async def answer(read: Read, context: Any) -> None:
        met.append(len(met))
        context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "later")

    given = options({"retryPolicy": SLOW if pushback in ("1", "20") else POLICY})
    method = await ends.method(way.arity, ends.behaviour(way.arity, answer), channel_options=given)
    seen = await ends.invoke(way, method, timeout=PATIENCE_S)  # gRPC shows the number that it read, not the text
    return {"unavailable": "UNAVAILABLE" in repr(seen), "met": len(met)}


@each(BOTH)
async def failures_use_up_the_tokens(ends: Driver) -> Record:
    met: list[bytes] = []

    async def answer(read: Read, context: Any) -> bytes:
        met.append(await read())
        if met[-1] == b"fail":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no")
        return met[-1]

    given = options({"retryPolicy": POLICY}, retryThrottling={"maxTokens": 6, "tokenRatio": "0.7009"})
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", answer), channel_options=given)
    attempts: list[int] = []
    for request in (b"fail", b"fail", b"fail", *(b"well" for _ in range(5)), b"fail", b"fail"):
        met.clear()
        await ends.attempt(method, request)
        attempts.append(len(met))
    return {"attempts": attempts}


@each(BOTH, method=("Method", "Other", "Third"))
async def the_closest_name_counts(ends: Driver, method: str) -> Record:
    flaky = Flaky(ends, 9)
    names: dict[int, Any] = {
        2: [{"service": SERVICE, "method": "Method"}],
        3: [{"service": SERVICE, "method": "Other"}, {"service": SERVICE}],
        4: [{}],
    }
    configs = [{"name": name, "retryPolicy": {**POLICY, "maxAttempts": most}} for most, name in names.items()]
    behaviour = ends.behaviour("unary_unary", flaky.answer)
    served = await ends.serve({one: method_handler("unary_unary", behaviour) for one in ("Method", "Other", "Third")})
    channel = ends.connect(served.target, of_json({"methodConfig": configs}))
    return {**await ends.attempt(channel.unary_unary(path(method)), b""), "met": len(flaky.met)}


@each((THREADS,))
async def a_closer_name_without_a_policy_has_none(ends: Driver) -> Record:
    named = {"name": [{"service": SERVICE, "method": "Method"}], "waitForReady": False}
    return await _call(ends, WAYS[THREADS][0], Flaky(ends, 1), options({"retryPolicy": POLICY}, named))


@each(BOTH, what=WRONG.keys())
async def is_wrong(ends: Driver, what: str) -> Record:
    behaviour = ends.behaviour("unary_unary", echo)
    method = await ends.method("unary_unary", behaviour, channel_options=of_json(WRONG[what]))
    return await ends.attempt(method, b"", wait_for_ready=True, timeout=PATIENCE_S)


@each(BOTH, way={**WAYS, ASYNCIO: [way for way in WAYS[ASYNCIO] if way.arity.startswith("unary")]})
async def is_wrong_in_every_way(ends: Driver, way: Way) -> Record:
    return await _call(ends, way, Flaky(ends, 0), of_json([]))


@each((THREADS,), text=("", "{", "nonsense", '{"a": NaN}', '{"a": 1, "a": 2}'))
async def is_no_json(ends: Driver, text: str) -> Record:
    behaviour = ends.behaviour("unary_unary", echo)
    method = await ends.method("unary_unary", behaviour, channel_options=(("grpc.service_config", text),))
    return await ends.attempt(method, b"")


@each((THREADS,), what=("hedgingPolicy", "unknown"))
async def unknown_fields_are_ignored(ends: Driver, what: str) -> Record:
    return await _call(ends, WAYS[THREADS][0], Flaky(ends, 1), options({what: {"maxAttempts": 3}}))


@each(BOTH, way=ONE_WAY, timeouts=((2.5, None), (60, 0.2), (2.5, 60)))
async def has_a_timeout(ends: Driver, way: Way, timeouts: Any) -> Record:
    configured, asked = timeouts
    given = options({"timeout": f"{configured}s"})
    method = await ends.method(way.arity, ends.behaviour(way.arity, Held(ends).answer), channel_options=given)
    return await ends.invoke(way, method, timeout=asked)


@each((THREADS,), way=WAYS)
async def waits_for_a_server(ends: Driver, way: Way) -> Record:
    channel = ends.connect(ends.address(), options({"waitForReady": True}))
    return await ends.invoke(way, getattr(channel, way.arity)(path()), timeout=0.2)


@each(BOTH, way=FREE_WAYS)
async def waits_for_a_server_that_comes(ends: Driver, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(ends, 1)
    channel = ends.connect(address, options({"waitForReady": True, "retryPolicy": POLICY}))
    call = ends.start(way, getattr(channel, way.arity)(path()), timeout=PATIENCE_S)
    await ends.settle()
    await ends.serve({"Method": method_handler(way.arity, flaky.of(way))}, address=address)
    return {**await ends.finish(way, call), "met": flaky.met}


@each(BOTH)
async def the_caller_does_not_wait(ends: Driver) -> Record:
    channel = ends.connect(ends.address(), options({"waitForReady": True}))
    method = channel.unary_unary(path())
    seen = await ends.attempt(method, b"", wait_for_ready=False, timeout=PATIENCE_S)
    return {"code": seen["raised"]["code"]}


@each(BOTH, way=READY_WAYS)
async def is_retried_until_a_server_comes(ends: Driver, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(ends, 0)
    policy = {**POLICY, "initialBackoff": "1s", "maxBackoff": "1s"}
    method = getattr(ends.connect(address, options({"retryPolicy": policy})), way.arity)(path())
    call = ends.start(way, method)
    await ends.settle()
    await ends.serve({"Method": method_handler(way.arity, flaky.of(way))}, address=address)
    return {**await ends.finish(way, call), "payloads": [payload for payload, _ in flaky.met]}


@each((THREADS,), way=FREE_WAYS)
async def is_retried_unwatched(ends: Driver, way: Way) -> Record:
    flaky = Flaky(ends, 2)
    call = ends.start(way, await ends.method(way.arity, flaky.of(way), channel_options=RETRIED))
    return {"two attempts": await flaky.begun_twice.happened(), **await ends.finish(way, call)}


@each(BOTH, way=READY_WAYS, how={THREADS: ("cancel", "close"), ASYNCIO: ("cancel",)})
async def ends_between_attempts(ends: Driver, way: Way, how: str) -> Record:
    flaky = Flaky(ends, 9)
    served = await ends.serve({"Method": method_handler(way.arity, flaky.of(way))})
    channel = ends.connect(served.target, options({"retryPolicy": SLOW}))
    call = ends.start(way, getattr(channel, way.arity)(path()))
    seen: Record = {"begun": await flaky.begun.happened()}
    await ends.settle()
    if how == "cancel":
        call.cancel()
    else:
        channel.close()
    return {**seen, **await ends.finish(way, call), "met": len(flaky.met)}


@each(BOTH, way={**READY_WAYS, THREADS: WAYS[THREADS]})
async def expires_between_attempts(ends: Driver, way: Way) -> Record:
    return await _call(ends, way, Flaky(ends, 9), options({"retryPolicy": SLOW}), timeout=0.3)


@each(BOTH, size=(10, 1000))
async def many_requests_are_not_kept(ends: Driver, size: int) -> Record:
    flaky, way = Flaky(ends, 1), Way("stream_unary", "iterate")
    given = (*RETRIED, ("grpc.per_rpc_retry_buffer_size", 600))
    method = await ends.method(way.arity, flaky.of(way), channel_options=given)
    seen = await ends.attempt(method, iter(bytes([48 + n]) * size for n in range(4)))
    return {**seen, "met": len(flaky.met)}


@each((THREADS,), arity=("stream_unary", "stream_stream"))
async def the_iterator_fails(ends: OverThreads, arity: str) -> Record:
    def requests() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("no more")

    way = Way(arity, "blocking" if arity == "stream_unary" else "iterator")
    method = await ends.method(arity, Flaky(ends, 1).of(way), channel_options=RETRIED)
    return invoke(way.style, method, requests(), timeout=PATIENCE_S)


@each(arity=("stream_unary", "stream_stream"))
def an_attempt_ends_before_the_requests(ends: Ends, arity: str) -> Record:
    failed, met = threading.Event(), list[Any]()

    def behaviour(requests: Any, context: Any) -> Any:
        met.append(next(requests))
        if len(met) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "at once")
        failed.set()
        rest = list(requests)
        met.extend(rest)
        return iter(rest) if arity.endswith("stream") else b"+".join(rest)

    def requests() -> Iterator[bytes]:
        yield b"one"
        failed.wait(PATIENCE_S)
        yield b"two"
        yield b"three"

    method = ends.method(arity, behaviour, channel_options=RETRIED)
    style = "blocking" if arity == "stream_unary" else "iterator"
    return {**invoke(style, method, requests(), timeout=PATIENCE_S), "met": met}


@each((ASYNCIO,), arity=("stream_unary", "stream_stream"))
async def an_asyncio_attempt_ends_before_the_requests(ends: AioEnds, arity: str) -> Record:
    again, met = ends.flag(), list[Any]()

    async def unary(requests: Any, context: Any) -> bytes:
        met.append(await anext(aiter(requests)))
        if len(met) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "at once")
        again.set()
        async for one in requests:
            met.append(one)
        return b"+".join(met)

    async def stream(requests: Any, context: Any) -> AsyncIterator[bytes]:
        yield await unary(requests, context)

    async def requests() -> AsyncIterator[bytes]:
        yield b"one"
        await again.happened()
        yield b"two"
        yield b"three"

    behaviour = stream if arity.endswith("stream") else unary
    method = await ends.method(arity, behaviour, channel_options=RETRIED)
    return {**await ends.finish(Way(arity, "iterate"), method(requests(), timeout=PATIENCE_S)), "met": met}
