"""What an asyncio handler learns from its context."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import attempt, happened, status, taken, until
from ..ends import ARITIES, method_handler, path
from ..records import Record, classes
from ..registry import case, each


@case
async def is_the_peer(ends: AioEnds) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        seen = (
            type(context.peer()).__name__,
            context.peer_identities(),
            context.peer_identity_key(),
            context.auth_context().get("transport_security_type"),
        )
        return repr(seen).encode()

    return await attempt((await ends.unary_unary(behaviour))(b"request"))


@case
async def is_a_servicer_context(ends: AioEnds) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        return f"{isinstance(context, grpc.aio.ServicerContext)} {classes(context)}".encode()

    return await attempt((await ends.unary_unary(behaviour))(b"request"))


@each(timeout=(None, 5.0))
async def is_the_time_remaining(ends: AioEnds, timeout: float | None) -> Record:
    async def behaviour(request: bytes, context: Any) -> bytes:
        left = context.time_remaining()
        return f"{type(left).__name__} {left is None or 0 < left < 6}".encode()

    return await attempt((await ends.unary_unary(behaviour))(b"request", timeout=timeout))


@case
async def tells_done_callbacks_in_order(ends: AioEnds) -> Record:
    told: list[Any] = []
    kept: list[Any] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        kept.append(context)
        context.add_done_callback(lambda one: told.append(("first", one is context)))
        context.add_done_callback(lambda one: told.append(("second", one is context)))
        return f"{context.done()} {context.cancelled()}".encode()

    seen = await attempt((await ends.unary_unary(behaviour))(b"request"))
    came = await until(lambda: len(told) == 2)
    return {"call": seen, "came": came, "told": told, "done": kept[0].done(), "cancelled": kept[0].cancelled()}


@case
async def tells_no_done_callback_after_one_that_fails(ends: AioEnds) -> Record:
    told: list[str] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        context.add_done_callback(lambda _: told.append("first"))
        context.add_done_callback(lambda _: (told.append("failing"), 1 / 0))
        context.add_done_callback(lambda _: told.append("last"))
        return b"response"

    method = await ends.unary_unary(behaviour)
    seen = [await attempt(method(b"request")), await attempt(method(b"request"))]
    await until(lambda: told.count("failing") == 2)
    return {"calls": seen, "told": told}


@case
async def is_cancelled_with_the_call(ends: AioEnds) -> Record:
    begun, told = asyncio.Event(), asyncio.Event()
    kept: list[Any] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        kept.append(context)
        context.add_done_callback(lambda _: told.set())
        begun.set()
        await asyncio.sleep(60)
        return request

    call = (await ends.unary_unary(behaviour))(b"request")
    seen: Record = {"begun": await happened(begun), "cancelling": call.cancel(), "told": await happened(told)}
    return {**seen, "done": kept[0].done(), "cancelled": kept[0].cancelled()}


@each(arity=ARITIES)
async def belongs_to_a_plain_function_too(ends: AioEnds, arity: str) -> Record:
    """An asyncio server runs handlers that are no coroutines in a pool of threads."""

    def unary(request: Any, context: Any) -> bytes:
        context.set_trailing_metadata((("plain", "yes"),))
        return b"+".join(request) if arity.startswith("stream") else request

    def stream(request: Any, context: Any) -> Any:
        yield b"first"
        yield unary(request, context)

    method = await ends.method(arity, stream if arity.endswith("stream") else unary, migration_thread_pool=ends.pool())
    call = method(iter((b"one", b"two")) if arity.startswith("stream") else b"one")
    answer = await (taken(call) if arity.endswith("stream") else attempt(call))
    return {"answer": answer, **await status(call)}


@each(how=("abort", "raise"))
async def ends_a_plain_function(ends: AioEnds, how: str) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        if how == "abort":
            context.abort(grpc.StatusCode.ABORTED, "so it goes")
        raise RuntimeError("boom")

    return await attempt((await ends.unary_unary(behaviour, migration_thread_pool=ends.pool()))(b"request"))


@case
async def has_the_context_variables_of_nobody(ends: AioEnds) -> Record:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    async def behaviour(request: bytes, context: Any) -> bytes:
        before = variable.get()
        variable.set("used")
        return before.encode()

    method = await ends.unary_unary(behaviour)
    return {"calls": [await attempt(method(b"request")) for _ in range(3)]}


@case
async def lets_a_handler_call_its_own_server(ends: AioEnds) -> Record:
    onward: list[Any] = []

    async def behaviour(request: bytes, context: Any) -> bytes:
        return await onward[0](request[1:]) + b"." if request else b"end"

    served = await ends.serve({"Method": method_handler("unary_unary", behaviour)})
    onward.append(ends.connect(served.target).unary_unary(path()))
    return await attempt(onward[0](b"12345"))
