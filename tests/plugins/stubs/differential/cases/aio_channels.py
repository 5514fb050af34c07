"""Channels of grpc.aio: closing, connectivity, waiting for a server, and finding it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds, attempt, ended, happened
from ..ends import method_handler, path
from ..records import PATIENCE_S, Record, error
from ..registry import case, each


async def _answer(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"Method": method_handler("unary_unary", _answer)}
READY = grpc.ChannelConnectivity.READY


def _refusal(function: Callable[..., Any], *arguments: Any) -> Record:
    try:
        function(*arguments)
    except Exception as raised:
        return {"raised": error(raised)}
    return {"raised": None}


@each(grace=(PATIENCE_S, 0.05))
async def closing_with_grace(ends: AioEnds, grace: float) -> Record:
    gate, begun = ends.gate(), asyncio.Event()

    async def behaviour(request: bytes, context: Any) -> bytes:
        begun.set()
        await gate.happened()
        return request

    served = await ends.serve({"Method": method_handler("unary_unary", behaviour)})
    channel = ends.connect(served.target)
    call = channel.unary_unary(path())(b"request")
    await happened(begun)
    closing = asyncio.ensure_future(channel.close(grace))
    await asyncio.sleep(0.05)
    if grace == PATIENCE_S:
        gate.set()
    return {"close": await attempt(closing), "response": await attempt(call), **await ended(call)}


@case
async def a_channel_is_a_context(ends: AioEnds) -> Record:
    served = await ends.serve(ECHO)
    async with ends.connect(served.target) as channel:
        method = channel.unary_unary(path())
        inside = await attempt(method(b"request"))
    return {"inside": inside, "outside": _refusal(method, b"request")}


@case
async def the_state_of_a_channel(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(ECHO)).target)
    seen: Record = {"first": channel.get_state().name}
    await asyncio.wait_for(channel.channel_ready(), PATIENCE_S)
    seen["ready"] = channel.get_state().name
    await channel.close()
    return {**seen, "closed": channel.get_state().name}


@case
async def trying_to_connect_makes_it_ready(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(ECHO)).target)
    state = channel.get_state(try_to_connect=True)
    seen: Record = {"first": state.name}
    while state is not READY:
        await asyncio.wait_for(channel.wait_for_state_change(state), PATIENCE_S)
        state = channel.get_state(try_to_connect=True)
    return {**seen, "last": state.name}


@case
async def waiting_for_a_state_that_is_past(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(ECHO)).target)
    return await attempt(channel.wait_for_state_change(READY))


@case
async def the_state_changes_on_close(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(ECHO)).target)
    await asyncio.wait_for(channel.channel_ready(), PATIENCE_S)
    waiting = asyncio.ensure_future(channel.wait_for_state_change(READY))
    await asyncio.sleep(0.05)
    await channel.close()
    seen = await attempt(waiting)
    return {"ended": True, "raised": seen.get("raised", {}).get("classes")}


@case
async def nobody_is_there(ends: AioEnds) -> Record:
    channel = ends.connect(ends.address())
    state = channel.get_state(try_to_connect=True)
    for _ in range(5):
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            break
        await asyncio.wait_for(channel.wait_for_state_change(state), PATIENCE_S)
        state = channel.get_state(try_to_connect=True)
    return {"state": state.name}


@case
async def a_channel_finds_its_server_again(ends: AioEnds) -> Record:
    async def another(request: bytes, context: Any) -> bytes:
        return b"from another"

    address = ends.address()
    served = await ends.serve(ECHO, address=address)
    channel = ends.connect(address)
    method = channel.unary_unary(path())
    seen = {"before": await attempt(method(b"request"))}
    await served.server.stop(None)
    while channel.get_state() is READY:  # until then gRPC may send to the server that is gone
        await asyncio.wait_for(channel.wait_for_state_change(READY), PATIENCE_S)
    await ends.serve({"Method": method_handler("unary_unary", another)}, address=address)
    return {**seen, "after": await attempt(method(b"request", wait_for_ready=True, timeout=PATIENCE_S))}
