"""Codes, details and metadata between asyncio ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import attempt, status, taken
from ..ends import ARITIES
from ..metadata_samples import INVALID, ODD, SENT
from ..records import PATIENCE_S, Record, error
from ..registry import case, each


async def told(ends: AioEnds, act: Callable[[Any], Awaitable[Any]], **options: Any) -> Record:
    """Return what the caller of a unary method sees whose handler does this with its context."""

    async def behaviour(request: bytes, context: Any) -> Any:
        return await act(context)

    method = await ends.unary_unary(behaviour)
    try:
        call = method(b"request", timeout=5, **options)
    except Exception as raised:
        return {"refused": error(raised)}
    seen = {"response": await attempt(call)}
    if call.done():  # a call that was not even sent never ends
        seen |= await status(call)
    return seen


@case
async def aborting_twice(ends: AioEnds) -> Record:
    seen: list[Any] = []
    ended = asyncio.Event()

    async def act(context: Any) -> None:
        for code in (grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL):
            try:
                await context.abort(code, code.name)
            except BaseException as raised:
                seen.append((type(raised).__mro__[1].__name__, str(raised)))
        ended.set()
        raise RuntimeError("a third time")

    call = await told(ends, act)
    await asyncio.wait_for(ended.wait(), PATIENCE_S)  # the caller has its status after the first
    return {"call": call, "there": seen}


@case
async def an_abort_takes_trailing_metadata(ends: AioEnds) -> Record:
    async def act(context: Any) -> None:
        context.set_trailing_metadata((("early", "yes"),))
        await context.abort(grpc.StatusCode.ABORTED, "details", trailing_metadata=(("late", "yes"),))

    return await told(ends, act)


async def _echo(context: Any) -> bytes:
    back = tuple(entry for entry in context.invocation_metadata() if entry[0] != "user-agent")
    await context.send_initial_metadata(back)
    context.set_trailing_metadata(back)
    return b"response"


@each(sent=SENT)
async def metadata_goes_there_and_back(ends: AioEnds, sent: str) -> Record:
    return await told(ends, _echo, metadata=SENT[sent])


@each(sent=INVALID)
async def metadata_is_invalid_on_the_client(ends: AioEnds, sent: str) -> Record:
    return await told(ends, _echo, metadata=INVALID[sent])


@each(sent=ODD)
async def metadata_is_odd_on_the_client(ends: AioEnds, sent: str) -> Record:
    return await told(ends, _echo, metadata=ODD[sent])


@each(place=("initial", "trailing", "of an abort"), arity=ARITIES)
async def metadata_is_larger_than_allowed(ends: AioEnds, arity: str, place: str) -> Record:
    large = (("key", "x" * 20_000),)

    async def one(request: Any, context: Any) -> bytes:
        if place == "initial":
            await context.send_initial_metadata(large)
        context.set_trailing_metadata(large if place != "initial" else ())
        if place == "of an abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, "gone")
        return b"response"

    async def many(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield await one(request, context)

    method = await ends.method(arity, many if arity.endswith("stream") else one)
    call = method(iter((b"request",)) if arity.startswith("stream") else b"request", timeout=PATIENCE_S)
    if arity.endswith("stream"):
        await taken(call)
    else:
        await attempt(call)
    seen = await status(call)
    seen["details"] = "metadata" in seen["details"]  # the sizes are HTTP/2's
    return seen


@case
async def metadata_is_sent_twice(ends: AioEnds) -> Record:
    async def act(context: Any) -> bytes:
        await context.send_initial_metadata((("first", "1"),))
        again = await attempt(context.send_initial_metadata((("second", "2"),)))
        return repr(again).encode()

    return await told(ends, act)


@case
async def the_client_is_named(ends: AioEnds) -> Record:
    async def act(context: Any) -> bytes:
        agents = [value for key, value in context.invocation_metadata() if key == "user-agent"]
        return repr([agent.split("/")[0] for agent in agents]).encode()

    return await told(ends, act)


@each(timeout=("negative", "text"))
async def the_timeout_is(ends: AioEnds, timeout: str) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        return request

    method = await ends.unary_unary(behaviour)
    value: Any = {"negative": -1, "text": "1"}[timeout]
    try:
        call = method(b"request", timeout=value)
    except Exception as raised:
        return {"refused": error(raised)}
    return await attempt(call)


@each(size=(4 * 1024 * 1024, 4 * 1024 * 1024 + 1), side=("request", "response"))
async def a_large_message(ends: AioEnds, size: int, side: str) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        return bytes(size if side == "response" else 1)

    call = (await ends.unary_unary(behaviour))(bytes(size if side == "request" else 1))
    seen = await attempt(call)
    return {**seen, "value": len(seen.get("value", b"")), "code": (await call.code()).name}


@case
async def compression_changes_nothing_to_see(ends: AioEnds) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        context.set_compression(grpc.Compression.Gzip)
        context.disable_next_message_compression()
        return request

    call = (await ends.unary_unary(behaviour))(b"x" * 5_000, compression=grpc.Compression.Gzip)
    return {"response": await attempt(call), **await status(call)}
