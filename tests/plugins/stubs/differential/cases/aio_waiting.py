"""`wait_for_ready` in asyncio: the counterpart of `waiting`."""

from __future__ import annotations

import asyncio
from typing import Any

from ..aio_ends import AioEnds
from ..aio_records import SAFE_WAYS, WAYS, answering, attempt, finish, happened, start
from ..ends import method_handler, path
from ..invoking import Way
from ..records import PATIENCE_S, Record
from ..registry import each


async def _reply(request: bytes, context: Any) -> bytes:
    return request


async def _echo(ends: AioEnds, way: Way, address: str) -> Any:
    handler = method_handler(way.arity, answering(way.arity, _reply))
    return (await ends.serve({"Method": handler}, address=address)).server


@each(way=WAYS)
async def the_server_comes_later(ends: AioEnds, way: Way) -> Record:
    address = ends.address()
    call = start(way, getattr(ends.connect(address), way.arity)(path()), wait_for_ready=True, timeout=PATIENCE_S)
    await asyncio.sleep(0.05)
    before = call.done()
    await _echo(ends, way, address)
    return {"before": before, **await finish(way, call)}


@each(way=WAYS, times=(2,))
async def the_server_goes_and_comes_back(ends: AioEnds, way: Way, times: int) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    seen: Record = {}
    for number in range(times):
        server = await _echo(ends, way, address)
        seen[f"up {number}"] = await finish(way, start(way, method, wait_for_ready=True, timeout=PATIENCE_S))
        await server.stop(None)
        call = start(way, method, wait_for_ready=True, timeout=PATIENCE_S)
        await asyncio.sleep(0.05)
        done = call.done()
        again = await _echo(ends, way, address)
        seen[f"down {number}"] = {"done": done, **await finish(way, call)}
        await again.stop(None)
    return seen


@each(way=SAFE_WAYS, waits=(None, False))
async def a_call_that_does_not_wait_fails_meanwhile(ends: AioEnds, way: Way, waits: bool | None) -> Record:
    address = ends.address()
    method = getattr(ends.connect(address), way.arity)(path())
    await (await _echo(ends, way, address)).stop(None)
    patient = start(way, method, wait_for_ready=True, timeout=PATIENCE_S)
    code = (await start(way, method, wait_for_ready=waits, timeout=PATIENCE_S).code()).name
    await _echo(ends, way, address)
    return {"code": code, **await finish(way, patient)}


@each(way=SAFE_WAYS[:1])  # a stream has its status once its responses are taken
async def a_call_under_way_does_not_wait_for_another_server(ends: AioEnds, way: Way) -> Record:
    address, gate, begun = ends.address(), ends.gate(), asyncio.Event()

    async def wait(request: bytes, context: Any) -> bytes:
        begun.set()
        await gate.wait()
        return request

    handler = method_handler(way.arity, answering(way.arity, wait))
    served = await ends.serve({"Method": handler}, address=address)
    method = getattr(ends.connect(address), way.arity)(path())
    call = start(way, method, wait_for_ready=True, timeout=PATIENCE_S)
    seen: Record = {"begun": await happened(begun)}
    await served.server.stop(None)
    code = (await call.code()).name
    await _echo(ends, way, address)
    again = await finish(way, start(way, method, wait_for_ready=True, timeout=PATIENCE_S))
    return {**seen, "code": code, "again": again}


@each(way=SAFE_WAYS)
async def is_cancelled_while_it_waits(ends: AioEnds, way: Way) -> Record:
    call = start(way, getattr(ends.connect(ends.address()), way.arity)(path()), wait_for_ready=True)
    await asyncio.sleep(0.05)
    return {"cancelled": call.cancel(), "code": (await call.code()).name, "again": await attempt(call.details())}
