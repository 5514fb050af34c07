"""Many asyncio calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ..aio_ends import AioEnds
from ..aio_records import WAYS, answering, attempt, invoke, taken
from ..ends import method_handler, path
from ..invoking import Way
from ..records import PATIENCE_S, Record
from ..registry import case, each

CALLS = 40


async def _echo(request: bytes, context: Any) -> bytes:
    return request


@each(way=WAYS)
async def calls_of_many_tasks(ends: AioEnds, way: Way) -> Record:
    method = await ends.method(way.arity, answering(way.arity, _echo))
    seen = await asyncio.gather(*(invoke(way, method) for _ in range(CALLS)))
    return {"the same": all(one == seen[0] for one in seen), "one": seen[0]}


@case
async def every_caller_gets_its_own_answer(ends: AioEnds) -> Record:
    method = await ends.unary_unary(_echo)
    return {"answers": await asyncio.gather(*(method(str(number).encode()) for number in range(200)))}


@case
async def streams_run_side_by_side(ends: AioEnds) -> Record:
    async def behaviour(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(50):
            yield request + str(number).encode()

    method = await ends.unary_stream(behaviour)
    calls = [method(str(number).encode()) for number in range(8)]
    turns = [[await call.read() for call in calls] for _ in range(50)]
    return {"turns": turns}


@case
async def conversations_run_side_by_side(ends: AioEnds) -> Record:
    async def behaviour(requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request.upper()

    method = await ends.stream_stream(behaviour)
    talks = (taken(method(iter([f"a{number}-{turn}".encode() for turn in range(20)]))) for number in range(8))
    return {"all": await asyncio.gather(*talks)}


@case
async def many_channels_to_one_server(ends: AioEnds) -> Record:
    served = await ends.serve({"Method": method_handler("unary_unary", _echo)})
    methods = [ends.connect(served.target).unary_unary(path()) for _ in range(8)]
    calls = (methods[number % 8](str(number).encode()) for number in range(CALLS))
    return {"answers": await asyncio.gather(*calls)}


@case
async def unary_calls_pass_a_stream_nobody_reads(ends: AioEnds) -> Record:
    async def endless(request: bytes, context: Any) -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000)
            await asyncio.sleep(0)

    served = await ends.serve(
        {"Endless": method_handler("unary_stream", endless), "Echo": method_handler("unary_unary", _echo)}
    )
    channel = ends.connect(served.target)
    stream = channel.unary_stream(path("Endless"))(b"request")
    echo = channel.unary_unary(path("Echo"))
    seen: Record = {"first": len(await stream.read())}
    seen["answers"] = [await attempt(echo(b"request", timeout=PATIENCE_S)) for _ in range(20)]
    stream.cancel()
    return seen


@case
async def tasks_are_cancelled_and_others_go_on(ends: AioEnds) -> Record:
    gate = ends.gate()

    async def behaviour(request: bytes, context: Any) -> bytes:
        await gate.wait()
        return request

    method = await ends.unary_unary(behaviour)
    calls = [method(str(number).encode()) for number in range(10)]
    await asyncio.sleep(0.05)
    for call in calls[::2]:
        call.cancel()
    gate.set()
    return {"outcomes": [await attempt(call) for call in calls]}
