"""The service config of an asyncio channel: the counterpart of `service_config`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import WAYS, attempt, finish, happened, invoke, start
from ..ends import SERVICE, method_handler, path
from ..invoking import Way
from ..records import PATIENCE_S, Record, entries
from ..registry import case, each
from ..service_configs import POLICY, PUSHBACKS, SLOW, WRONG, of_json, options

Said = Callable[[Any], Awaitable[Any]]


class Flaky:
    """A behaviour that fails its first calls, before or after it `says` something, and then echoes."""

    def __init__(self, way: Way, failures: int, says: Said | None = None, code: str = "UNAVAILABLE") -> None:
        self._streams = way.arity.startswith("stream")
        self._failures = failures
        self._says = says
        self._code = code
        self.met: list[Any] = []
        self.begun = asyncio.Event()
        self.behaviour: Any = self._stream if way.arity.endswith("stream") else self._answer

    async def _stream(self, request: Any, context: Any) -> AsyncIterator[bytes]:
        yield await self._answer(request, context)
        yield b"last"

    async def _answer(self, request: Any, context: Any) -> bytes:
        payload = b"+".join([one async for one in request]) if self._streams else request
        self.met.append((payload, entries(context.invocation_metadata())))
        self.begun.set()
        if len(self.met) <= self._failures:
            if self._says is not None:
                await self._says(context)
            context.set_trailing_metadata((("attempt", str(len(self.met))),))
            await context.abort(grpc.StatusCode[self._code], "not yet")
        return payload


async def _call(ends: AioEnds, way: Way, flaky: Flaky, given: Any, **more: Any) -> Record:
    method = await ends.method(way.arity, flaky.behaviour, channel_options=given)
    return {"call": await invoke(way, method, **more), "met": flaky.met}


@each(way=WAYS, failures=(0, 1, 2, 3))
async def is_retried(ends: AioEnds, way: Way, failures: int) -> Record:
    return await _call(ends, way, Flaky(way, failures), options({"retryPolicy": POLICY}))


@each(way=WAYS)
async def another_code_is_not_retried(ends: AioEnds, way: Way) -> Record:
    return await _call(ends, way, Flaky(way, 1, code="ABORTED"), options({"retryPolicy": POLICY}))


@each(way=WAYS)
async def retries_are_switched_off(ends: AioEnds, way: Way) -> Record:
    given = (*options({"retryPolicy": POLICY}), ("grpc.enable_retries", 0))
    return await _call(ends, way, Flaky(way, 1), given)


@each(way=WAYS, headers=((), (("first", "1"),)))
async def initial_metadata_commit(ends: AioEnds, way: Way, headers: Any) -> Record:
    flaky = Flaky(way, 1, lambda context: context.send_initial_metadata(headers))
    return await _call(ends, way, flaky, options({"retryPolicy": POLICY}))


#: A stream of requests that is refused ends at times with "Internal error from Core" in grpcio 1.60.
@each(arity=("unary_stream",))
async def a_message_commits(ends: AioEnds, arity: str) -> Record:
    met: list[Any] = []

    async def behaviour(request: Any, context: Any) -> AsyncIterator[bytes]:
        met.append(1)
        yield b"first"
        await context.abort(grpc.StatusCode.UNAVAILABLE, "too late")

    method = await ends.method(arity, behaviour, channel_options=options({"retryPolicy": POLICY}))
    seen = await invoke(Way(arity, "iterate"), method)
    return {**seen, "met": len(met)}


@case
async def a_response_with_a_code_commits(ends: AioEnds) -> Record:
    met: list[Any] = []

    async def behaviour(request: Any, context: Any) -> bytes:
        met.append(request)
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b"and yet a response"

    method = await ends.unary_unary(behaviour, channel_options=options({"retryPolicy": POLICY}))
    return {**await invoke(WAYS[0], method), "met": met}


@each(pushback=PUSHBACKS)
async def the_server_says_when(ends: AioEnds, pushback: str) -> Record:
    met: list[int] = []

    async def behaviour(request: Any, context: Any) -> None:
        met.append(len(met))
        context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "later")

    policy = SLOW if pushback in ("1", "20") else POLICY
    method = await ends.unary_unary(behaviour, channel_options=options({"retryPolicy": policy}))
    seen = await attempt(method(b"", timeout=PATIENCE_S))
    return {"raised": "raised" in seen, "met": len(met)}


@case
async def failures_use_up_the_tokens(ends: AioEnds) -> Record:
    met: list[bytes] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        met.append(request)
        if request == b"fail":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no")
        return request

    throttling = {"maxTokens": 6, "tokenRatio": "0.7009"}
    given = options({"retryPolicy": POLICY}, retryThrottling=throttling)
    method = await ends.unary_unary(behaviour, channel_options=given)
    attempts: list[int] = []
    for request in (b"fail", b"fail", b"fail", *(b"well" for _ in range(5)), b"fail", b"fail"):
        met.clear()
        await attempt(method(request))
        attempts.append(len(met))
    return {"attempts": attempts}


@each(method=("Method", "Other", "Third"))
async def the_closest_name_counts(ends: AioEnds, method: str) -> Record:
    met: list[int] = []

    async def behaviour(request: bytes, context: Any) -> None:
        met.append(1)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "no")

    names: dict[int, Any] = {
        2: [{"service": SERVICE, "method": "Method"}],
        3: [{"service": SERVICE, "method": "Other"}, {"service": SERVICE}],
        4: [{}],
    }
    configs = [{"name": name, "retryPolicy": {**POLICY, "maxAttempts": most}} for most, name in names.items()]
    served = await ends.serve({one: method_handler("unary_unary", behaviour) for one in ("Method", "Other", "Third")})
    channel = ends.connect(served.target, of_json({"methodConfig": configs}))
    return {**await attempt(channel.unary_unary(path(method))(b"")), "met": len(met)}


@each(what=WRONG)
async def is_wrong(ends: AioEnds, what: str) -> Record:
    flaky = Flaky(WAYS[0], 0)
    method = await ends.unary_unary(flaky.behaviour, channel_options=of_json(WRONG[what]))
    return await attempt(method(b"", wait_for_ready=True, timeout=PATIENCE_S))


@each(way=[way for way in WAYS if way.arity.startswith("unary")])
async def is_wrong_in_every_way(ends: AioEnds, way: Way) -> Record:
    return await _call(ends, way, Flaky(way, 0), of_json([]))


@each(way=WAYS[:1], timeouts=((2.5, None), (60, 0.2), (2.5, 60)))
async def has_a_timeout(ends: AioEnds, way: Way, timeouts: Any) -> Record:
    configured, asked = timeouts
    gate = ends.gate()

    async def unary(request: Any, context: Any) -> bytes:
        await gate.wait()
        return b""

    async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield await unary(request, context)

    behaviour = stream if way.arity.endswith("stream") else unary
    method = await ends.method(way.arity, behaviour, channel_options=options({"timeout": f"{configured}s"}))
    return await invoke(way, method, timeout=asked)


@each(way=WAYS)
async def waits_for_a_server_that_comes(ends: AioEnds, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(way, 1)
    channel = ends.connect(address, options({"waitForReady": True, "retryPolicy": POLICY}))
    call = start(way, getattr(channel, way.arity)(path()), timeout=PATIENCE_S)
    await asyncio.sleep(0)
    await ends.serve({"Method": method_handler(way.arity, flaky.behaviour)}, address=address)
    return {**await finish(way, call), "met": flaky.met}


@case
async def the_caller_does_not_wait(ends: AioEnds) -> Record:
    channel = ends.connect(ends.address(), options({"waitForReady": True}))
    seen = await attempt(channel.unary_unary(path())(b"", wait_for_ready=False, timeout=PATIENCE_S))
    return {"code": seen["raised"]["code"]}


@each(way=[way for way in WAYS if "write" not in way.style])
async def is_retried_until_a_server_comes(ends: AioEnds, way: Way) -> Record:
    address, flaky = ends.address(), Flaky(way, 0)
    policy = {**POLICY, "initialBackoff": "1s", "maxBackoff": "1s"}
    method = getattr(ends.connect(address, options({"retryPolicy": policy})), way.arity)(path())
    call = start(way, method)
    await asyncio.sleep(0)
    await ends.serve({"Method": method_handler(way.arity, flaky.behaviour)}, address=address)
    return {**await finish(way, call), "payloads": [payload for payload, _ in flaky.met]}


@each(way=[way for way in WAYS if "write" not in way.style])
async def is_cancelled_between_attempts(ends: AioEnds, way: Way) -> Record:
    flaky = Flaky(way, 9)
    method = await ends.method(way.arity, flaky.behaviour, channel_options=options({"retryPolicy": SLOW}))
    call = start(way, method)
    seen: Record = {"begun": await happened(flaky.begun)}
    await asyncio.sleep(0.05)
    call.cancel()
    return {**seen, **await finish(way, call), "met": len(flaky.met)}


@each(way=[way for way in WAYS if "write" not in way.style])
async def expires_between_attempts(ends: AioEnds, way: Way) -> Record:
    return await _call(ends, way, Flaky(way, 9), options({"retryPolicy": SLOW}), timeout=0.3)


@each(size=(10, 1000))
async def many_requests_are_not_kept(ends: AioEnds, size: int) -> Record:
    flaky = Flaky(Way("stream_unary", "iterate"), 1)
    given = (*options({"retryPolicy": POLICY}), ("grpc.per_rpc_retry_buffer_size", 600))
    method = await ends.stream_unary(flaky.behaviour, channel_options=given)
    return {**await attempt(method(iter(bytes([48 + n]) * size for n in range(4)))), "met": len(flaky.met)}


@each(arity=("stream_unary", "stream_stream"))
async def an_attempt_ends_before_the_requests(ends: AioEnds, arity: str) -> Record:
    again, met = asyncio.Event(), list[Any]()

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
        await happened(again)
        yield b"two"
        yield b"three"

    behaviour = stream if arity.endswith("stream") else unary
    method = await ends.method(arity, behaviour, channel_options=options({"retryPolicy": POLICY}))
    return {**await finish(Way(arity, "iterate"), method(requests(), timeout=PATIENCE_S)), "met": met}
