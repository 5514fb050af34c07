"""What an asyncio case records; the counterpart of `records` for calls whose answers are awaited.

Every observation of an asyncio call goes through here, so that no case forgets a part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from .invoking import REQUESTS, Way
from .records import PATIENCE_S, Record, entries, error, words

#: What grpc.aio gives where a stream has no further item.
EOF: Any = vars(grpc.aio)["EOF"]

#: Every way to make a call of grpc.aio: how requests are given and responses taken.
WAYS = (
    Way("unary_unary", "await"),
    Way("unary_stream", "iterate"),
    Way("unary_stream", "read"),
    Way("stream_unary", "iterate"),
    Way("stream_unary", "write"),
    Way("stream_stream", "iterate"),
    Way("stream_stream", "write and read"),
)

#: Those that cannot break off in the middle of a write, which gRPC sometimes calls an internal error of its own.
SAFE_WAYS = tuple(way for way in WAYS if way.arity.startswith("unary"))


async def attempt(awaitable: Awaitable[Any]) -> Record:
    """Await; return the record of the value or of what was raised."""
    try:
        value = await asyncio.wait_for(_as_coroutine(awaitable), PATIENCE_S)
    except (Exception, asyncio.CancelledError) as raised:
        return {"raised": error(raised)}
    return {"value": "EOF" if value is EOF else value}


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def taken(items: AsyncIterator[Any] | Any, at_most: int = 1_000_000) -> Record:
    """Return the items that come, and the error that ends them."""
    seen: list[Any] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for item in items:
                seen.append(item)
                if len(seen) == at_most:
                    return {"items": seen, "ended": "not yet"}
    except (Exception, asyncio.CancelledError) as raised:
        return {"items": seen, "ended": error(raised)}
    return {"items": seen, "ended": "exhausted"}


async def read(call: Any, at_most: int = 1_000_000) -> Record:
    """Return the items that `read()` gives, and the error that ends them."""
    seen: list[Any] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < at_most:
                item = await call.read()
                if item is EOF:
                    return {"items": seen, "ended": "EOF"}
                seen.append(item)
    except (Exception, asyncio.CancelledError) as raised:
        return {"items": seen, "ended": error(raised)}
    return {"items": seen, "ended": "not yet"}


async def status(call: Any) -> Record:
    """Return what a call says about its end, once it has ended."""
    async with asyncio.timeout(PATIENCE_S):
        return {
            "code": (await call.code()).name,
            "details": words(await call.details()),
            "initial": entries(await call.initial_metadata()),
            "trailing": entries(await call.trailing_metadata()),
        }


def state(call: Any) -> Record:
    """Return what a call says about where it stands."""
    return {"done": call.done(), "cancelled": call.cancelled()}


async def ended(call: Any) -> Record:
    """Return what an ended call says, whatever it is asked."""
    return {**await status(call), **state(call), "cancel": call.cancel()}


def start(way: Way, method: Any, *sent: Any, **options: Any) -> Any:
    """Begin a call; where requests are written nothing is sent yet. `sent` is another request than usual."""
    if sent:
        return method(*sent, **options)
    if not way.arity.startswith("stream"):
        return method(REQUESTS[0], **options)
    return method(**options) if "write" in way.style else method(iter(REQUESTS), **options)


async def finish(way: Way, call: Any) -> Record:
    """Send the rest, take all responses; return them with all that the call then says."""
    seen: Record = {}
    if "write" in way.style:
        seen["writing"] = await attempt(_write_all(call))
    if not way.arity.endswith("stream"):
        seen["response"] = await attempt(call)
    else:
        seen["taken"] = await (read(call) if "read" in way.style else taken(call))
    return {**seen, **await ended(call)}


async def _write_all(call: Any) -> None:
    for request in REQUESTS:
        await call.write(request)
    await call.done_writing()


async def invoke(way: Way, method: Any, *sent: Any, **options: Any) -> Record:
    """Make a call and return all there is to see of it, from its response to its state at the end."""
    try:
        call = start(way, method, *sent, **options)
    except Exception as raised:
        return {"refused": error(raised)}
    return await finish(way, call)


async def happened(event: asyncio.Event) -> bool:
    """Return whether the event comes within our patience."""
    try:
        await asyncio.wait_for(event.wait(), PATIENCE_S)
    except TimeoutError:
        return False
    return True


async def until(condition: Callable[[], bool]) -> bool:
    """Return whether the condition comes true within our patience."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while not condition() and loop.time() < end:
        await asyncio.sleep(0.005)
    return condition()
