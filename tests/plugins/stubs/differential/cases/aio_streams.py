"""Writing and reading of asyncio streams, by calls, by iterators, and by both."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..aio_ends import EOF, AioEnds, attempt, read, taken
from ..both import echo
from ..records import Record, argument
from ..registry import case, each

ITEMS = (b"one", b"two", b"three")


def _echo(ends: AioEnds) -> Any:
    return ends.stream_stream(ends.flow("stream_stream", lambda request: (request,)))


def _plain() -> Iterator[bytes]:
    yield from ITEMS


async def _asynchronous() -> AsyncIterator[bytes]:
    for item in ITEMS:
        await asyncio.sleep(0)
        yield item


@each(kind=("list", "generator", "asynchronous generator"))
async def requests_are_any_iterable(ends: AioEnds, kind: str) -> Record:
    def requests() -> Any:
        return {"list": list(ITEMS), "generator": _plain(), "asynchronous generator": _asynchronous()}[kind]

    joined = await attempt((await ends.stream_unary(ends.behaviour("stream_unary", echo)))(requests()))
    return {"joined": joined, "echoed": await taken((await _echo(ends))(requests()))}


@case
async def writing_after_done_writing(ends: AioEnds) -> Record:
    gate = ends.gate()

    async def behaviour(requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request
        await gate.happened()

    call = (await ends.stream_stream(behaviour))()
    await call.write(b"one")
    seen: Record = {"done": await attempt(call.done_writing()), "again": await attempt(call.done_writing())}
    seen["late"] = await attempt(call.write(b"late"))
    gate.set()
    return {**seen, "read": await read(call)}


@case
async def writing_after_the_end(ends: AioEnds) -> Record:
    async def nothing(read: Any, context: Any) -> None:
        pass

    call = (await ends.stream_stream(ends.behaviour("stream_stream", nothing, b"only")))()
    seen: Record = {"read": await read(call), "code": (await call.code()).name}
    return {**seen, "write": await attempt(call.write(b"late")), "done_writing": await attempt(call.done_writing())}


@case
async def writing_after_a_cancel(ends: AioEnds) -> Record:
    call = (await _echo(ends))()
    await call.write(b"one")
    seen: Record = {"read": await attempt(call.read()), "cancelling": call.cancel()}
    return {**seen, "write": await attempt(call.write(b"late")), "then": await attempt(call.read())}


@case
async def writing_where_an_iterator_was_given(ends: AioEnds) -> Record:
    call = (await _echo(ends))(iter(ITEMS))
    return {
        "write": await attempt(call.write(b"more")),
        "done_writing": await attempt(call.done_writing()),
        "read": await read(call),
    }


@case
async def the_iterator_never_ends(ends: AioEnds) -> Record:
    async def three(requests: Any, context: Any) -> bytes:
        seen: list[bytes] = []
        async for request in requests:
            seen.append(request)
            if len(seen) == 3:
                break
        return b"+".join(seen)

    async def requests() -> AsyncIterator[bytes]:
        for number in itertools.count():
            yield str(number).encode()
            await asyncio.sleep(0)

    call = (await ends.stream_unary(three))(requests())
    seen = await attempt(call)
    # When the last write breaks off, gRPC now and then calls that an internal error of its own.
    return {"answered": "value" in seen or seen["raised"]["code"] == "INTERNAL"}


@case
async def a_slow_iterator_is_waited_for(ends: AioEnds) -> Record:
    gate = ends.gate()

    async def requests() -> AsyncIterator[bytes]:
        yield b"one"
        await gate.happened()
        yield b"two"

    call = (await _echo(ends))(requests())
    seen: Record = {"first": await attempt(call.read())}
    gate.set()
    return {**seen, "rest": await read(call)}


@each(arity=("unary_stream", "stream_stream"))
async def a_handler_reads_and_writes_by_calls(ends: AioEnds, arity: str) -> Record:
    async def behaviour(request: Any, context: Any) -> None:
        while arity == "stream_stream" and (request := await context.read()) is not EOF:
            await context.write(request.upper())
        await context.write(b"and the end")

    return await taken((await ends.method(arity, behaviour))(argument(arity)))


@case
async def a_handler_mixes_its_styles(ends: AioEnds) -> Record:
    async def behaviour(requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request
            await context.write(b"mixed in")

    return {"ended": (await taken((await ends.stream_stream(behaviour))(iter(ITEMS[:1]))))["ended"]}
