"""Servers of grpc.aio: stopping under calls, limits, and how handlers are found."""

from __future__ import annotations

import asyncio
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import SAFE_WAYS, attempt, happened, start, taken
from ..ends import SERVICE, generic_handler, method_handler, path
from ..invoking import Way
from ..records import PATIENCE_S, Record
from ..registry import case, each


async def _answer(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"Method": method_handler("unary_unary", _answer)}


class _Pending:
    """A call that a server is busy with, until its handler is let go."""

    def __init__(self, ends: AioEnds, way: Way) -> None:
        self._ends, self._way = ends, way
        self._gate, self._begun, self._told = ends.gate(), asyncio.Event(), asyncio.Event()

    async def begin(self) -> bool:
        """Serve, call, and return whether the handler has begun."""
        handler = method_handler(self._way.arity, self._stream if self._way.arity.endswith("stream") else self._unary)
        self.served = await self._ends.serve({"Method": handler})
        self.channel = self._ends.connect(self.served.target)
        self._call = start(self._way, getattr(self.channel, self._way.arity)(path()))
        return await happened(self._begun)

    async def _unary(self, request: Any, context: Any) -> bytes:
        context.add_done_callback(lambda _: self._told.set())
        self._begun.set()
        await self._gate.wait()
        return b"response"

    async def _stream(self, request: Any, context: Any) -> Any:
        yield await self._unary(request, context)

    def let_go(self) -> None:
        """Let the handler answer."""
        self._gate.set()

    async def outcome(self) -> Record:
        """Return how the call ended, for its caller and for its handler."""
        seen = await (taken(self._call) if self._way.arity.endswith("stream") else attempt(self._call))
        error: Record = seen.get("raised") or seen.get("ended") or {}
        code = await self._call.code()
        if code is grpc.StatusCode.UNAVAILABLE:
            error.pop("details")  # what the socket says depends on who closes it first
        return {"call": seen, "code": code.name, "told": await happened(self._told)}


@each(way=SAFE_WAYS)
async def stopping_without_grace_ends_calls(ends: AioEnds, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin(), "stop": await attempt(pending.served.server.stop(None))}
    return {**seen, **await pending.outcome()}


@each(way=SAFE_WAYS)
async def stopping_with_grace_lets_calls_end(ends: AioEnds, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin()}
    stopping = asyncio.ensure_future(pending.served.server.stop(PATIENCE_S))
    await asyncio.sleep(0.05)
    pending.let_go()
    return {**seen, **await pending.outcome(), "stop": await attempt(stopping)}


@each(way=SAFE_WAYS)
async def grace_runs_out(ends: AioEnds, way: Way) -> Record:
    pending = _Pending(ends, way)
    seen: Record = {"begun": await pending.begin()}
    stopping = asyncio.ensure_future(pending.served.server.stop(0.1))
    return {**seen, **await pending.outcome(), "stop": await attempt(stopping)}


@each(grace=(None, 0, 1))
async def an_idle_server_stops_at_once(ends: AioEnds, grace: float | None) -> Record:
    server = (await ends.serve(ECHO)).server
    return {
        "stop": await attempt(server.stop(grace)),
        "again": await attempt(server.stop(grace)),
        "terminated": await attempt(server.wait_for_termination(timeout=PATIENCE_S)),
    }


@case
async def a_server_that_never_started_stops(ends: AioEnds) -> Record:
    return await attempt(ends.server().stop(None))


@case
async def waiting_for_termination_has_a_timeout(ends: AioEnds) -> Record:
    return await attempt((await ends.serve(ECHO)).server.wait_for_termination(timeout=0.05))


@case
async def waiting_for_termination_ends_with_the_server(ends: AioEnds) -> Record:
    server = (await ends.serve(ECHO)).server
    waiting = asyncio.ensure_future(server.wait_for_termination())
    await asyncio.sleep(0.05)
    await server.stop(None)
    return await attempt(waiting)


@case
async def a_server_starts_once(ends: AioEnds) -> Record:
    return {"classes": (await attempt((await ends.serve(ECHO)).server.start())).get("raised", {}).get("classes")}


@case
async def a_port_is_positive(ends: AioEnds) -> Record:
    return {"positive": ends.server().add_insecure_port(ends.address()) > 0}


@case
async def a_server_is_of_its_class(ends: AioEnds) -> Record:
    return {"server": isinstance(ends.server(), grpc.aio.Server)}


@case
async def handlers_come_from_both_registrations(ends: AioEnds) -> Record:
    server, address = ends.server(), ends.address()
    server.add_generic_rpc_handlers((generic_handler(ECHO),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers(SERVICE, ECHO)
    server.add_insecure_port(address)
    await server.start()
    return await attempt(ends.connect(address).unary_unary(path())(b"request"))


@case
async def the_first_handler_that_knows_a_method_serves_it(ends: AioEnds) -> Record:
    async def second(request: bytes, context: Any) -> bytes:
        return b"second"

    other = {"Method": method_handler("unary_unary", second), "Other": method_handler("unary_unary", second)}
    server, address = ends.server(generic_handler(ECHO), generic_handler(other)), ends.address()
    server.add_insecure_port(address)
    await server.start()
    channel = ends.connect(address)
    return {name: await attempt(channel.unary_unary(path(name))(b"request")) for name in ("Method", "Other", "Neither")}


@each(limit=(1, 2))
async def only_so_many_calls_at_once(ends: AioEnds, limit: int) -> Record:
    gate, begun = ends.gate(), asyncio.Semaphore(0)

    async def behaviour(request: bytes, context: Any) -> bytes:
        begun.release()
        await gate.wait()
        return request

    method = await ends.unary_unary(behaviour, maximum_concurrent_rpcs=limit)
    held = [method(b"held") for _ in range(limit)]
    for _ in range(limit):
        await asyncio.wait_for(begun.acquire(), PATIENCE_S)
    refused = await attempt(method(b"one too many", timeout=1))
    gate.set()
    return {"refused": refused, "held": [await attempt(call) for call in held]}
