"""What the objects of asyncio look like that a program holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.support.appearance import appearance

from ..aio_ends import AioEnds
from ..ends import ARITIES, path
from ..records import Record
from ..registry import case, each


@case
async def of_a_channel_and_a_server(ends: AioEnds) -> Record:
    channel = ends.connect(ends.address())
    target = ends.addresses[-1].encode()
    return {
        "server": appearance(ends.server()),
        "channel": appearance(channel, "channel"),
        "target": getattr(channel._channel, "target", target) == target,  # not in 1.60
    }


@each(arity=ARITIES)
async def of_a_method(ends: AioEnds, arity: str) -> Record:
    method = getattr(ends.connect(ends.address()), arity)(path())
    return {"method": appearance(method, "method"), "path": method._method}


@each(blocking=(True, False))
async def of_a_context(ends: AioEnds, blocking: bool) -> Record:
    seen: list[Any] = []

    def look(request: bytes, context: Any) -> bytes:
        looks = appearance(context)
        del looks["classes"]  # see `aio_contexts.is_a_servicer_context`
        seen.append((looks, [hasattr(context, name) for name in ("_state", "_rpc_event")]))
        return request

    async def look_on_the_loop(request: bytes, context: Any) -> bytes:
        return look(request, context)

    method = await ends.unary_unary(look if blocking else look_on_the_loop, migration_thread_pool=ends.pool())
    return {"response": await method(b"request"), "context": seen}


@each(arity=ARITIES)
async def of_a_call(ends: AioEnds, arity: str) -> Record:
    gate = ends.gate()

    async def one(request: Any, context: Any) -> bytes:
        await gate.happened()
        return b"response"

    async def many(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield await one(request, context)

    method = await ends.method(arity, many if arity.endswith("stream") else one)
    call = method(iter((b"request",)) if arity.startswith("stream") else b"request")
    before = appearance(call)
    gate.set()
    taken = [item async for item in call] if arity.endswith("stream") else await call
    await call.code()
    after = appearance(call)
    after["repr"] = after["repr"].partition("\n")[0]  # grpc.aio shows code and details in each other's place
    return {"before": before, "taken": taken, "after": after}
