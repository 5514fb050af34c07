"""How asyncio calls end: success, failure, cancellation and expiry, in every arity and every style of call."""

from __future__ import annotations

import asyncio
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import SAFE_WAYS, WAYS, answering, attempt, ended, happened, invoke, start, state, taken
from ..ends import ARITIES, method_handler, path
from ..invoking import Way
from ..records import EXPIRIES_S, PATIENCE_S, Record
from ..registry import each


async def _echo(request: bytes, context: Any) -> bytes:
    return request


@each(way=WAYS)
async def succeeds(ends: AioEnds, way: Way) -> Record:
    return await invoke(way, await ends.method(way.arity, answering(way.arity, _echo)))


@each(way=WAYS)
async def is_aborted(ends: AioEnds, way: Way) -> Record:
    async def abort(request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now", (("why", "later"),))

    return await invoke(way, await ends.method(way.arity, answering(way.arity, abort)))


@each(way=WAYS)
async def raises(ends: AioEnds, way: Way) -> Record:
    async def fail(request: bytes, context: Any) -> None:
        raise RuntimeError("boom")

    return await invoke(way, await ends.method(way.arity, answering(way.arity, fail)))


@each(way=WAYS)
async def answers_nothing(ends: AioEnds, way: Way) -> Record:
    async def nothing(request: bytes, context: Any) -> None:
        return None

    return await invoke(way, await ends.method(way.arity, answering(way.arity, nothing)))


@each(way=WAYS)
async def sets_a_code(ends: AioEnds, way: Way) -> Record:
    async def refuse(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.OUT_OF_RANGE)
        context.set_details("too far")
        return b"and yet a response"

    return await invoke(way, await ends.method(way.arity, answering(way.arity, refuse)))


@each(way=WAYS)
async def shows_metadata(ends: AioEnds, way: Way) -> Record:
    async def unary(request: Any, context: Any) -> bytes:
        await context.send_initial_metadata((("said", "first"), ("raw-bin", b"\x00\xff")))
        context.set_trailing_metadata((("said", "last"), ("said", "and more")))
        if way.arity.startswith("stream"):
            return b"+".join([one async for one in request])
        return request

    async def stream(request: Any, context: Any) -> Any:
        yield await unary(request, context)

    return await invoke(way, await ends.method(way.arity, stream if way.arity.endswith("stream") else unary))


@each(way=WAYS)
async def expires(ends: AioEnds, way: Way) -> Record:
    gate = ends.gate()
    seen: Record = {}
    for timeout in EXPIRIES_S:
        told, in_time = asyncio.Event(), asyncio.Event()

        async def wait(
            request: bytes, context: Any, end: Any = told, early: Any = in_time, s: float = timeout
        ) -> bytes:
            context.add_done_callback(lambda _: end.set())
            if context.time_remaining() > s / 2:
                early.set()
            await gate.wait()
            return request

        seen = await invoke(way, await ends.method(way.arity, answering(way.arity, wait)), timeout=timeout)
        if in_time.is_set():
            return {**seen, "told": await happened(told)}
    return {**seen, "handler": "came late"}


@each(way=WAYS)
async def is_cancelled(ends: AioEnds, way: Way) -> Record:
    gate, begun, told, stopped = ends.gate(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def unary(request: Any, context: Any) -> bytes:
        context.add_done_callback(lambda _: told.set())
        begun.set()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return b"too late"

    async def stream(request: Any, context: Any) -> Any:
        yield await unary(request, context)

    call = start(way, await ends.method(way.arity, stream if way.arity.endswith("stream") else unary))
    seen: Record = {
        "begun": await happened(begun),
        "before": state(call),
        "cancelling": call.cancel(),
        "now": state(call),
    }
    seen["response"] = await (taken(call) if way.arity.endswith("stream") else attempt(call))
    return {**seen, **await ended(call), "told": await happened(told), "handler cancelled": await happened(stopped)}


@each(way=SAFE_WAYS)
async def is_not_implemented(ends: AioEnds, way: Way) -> Record:
    served = await ends.serve({"Other": method_handler(way.arity, answering(way.arity, _echo))})
    return await invoke(way, getattr(ends.connect(served.target), way.arity)(path()))


@each(way=SAFE_WAYS)
async def finds_no_server(ends: AioEnds, way: Way) -> Record:
    return await invoke(way, getattr(ends.connect(ends.address()), way.arity)(path()), timeout=PATIENCE_S)


@each(way=SAFE_WAYS)
async def finds_no_server_and_waits(ends: AioEnds, way: Way) -> Record:
    method = getattr(ends.connect(ends.address()), way.arity)(path())
    return await invoke(way, method, timeout=0.2, wait_for_ready=True)


def _refuse(_: Any) -> Any:
    raise ValueError("no message")


@each(way=SAFE_WAYS)
async def the_server_cannot_read_the_request(ends: AioEnds, way: Way) -> Record:
    handler = method_handler(way.arity, answering(way.arity, _echo), request_deserializer=_refuse)
    served = await ends.serve({"Method": handler})
    return await invoke(way, getattr(ends.connect(served.target), way.arity)(path()), timeout=PATIENCE_S)


@each(way=[way for way in WAYS if way.arity != "stream_stream"])  # there it may break off a write, see SAFE_WAYS
async def the_server_cannot_write_the_response(ends: AioEnds, way: Way) -> Record:
    handler = method_handler(way.arity, answering(way.arity, _echo), response_serializer=_refuse)
    served = await ends.serve({"Method": handler})
    return await invoke(way, getattr(ends.connect(served.target), way.arity)(path()), timeout=PATIENCE_S)


@each(arity=ARITIES, place=("request_serializer", "response_deserializer"))
async def the_client_cannot_convert(ends: AioEnds, arity: str, place: str) -> Record:
    served = await ends.serve({"Method": method_handler(arity, answering(arity, _echo))})
    method = getattr(ends.connect(served.target), arity)(path(), **{place: _refuse})
    call = start(Way(arity, "iterate"), method, timeout=1)
    return await (taken(call) if arity.endswith("stream") else attempt(call))
