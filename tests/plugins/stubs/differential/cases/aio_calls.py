"""What an asyncio call answers while it runs and after it has ended."""

import asyncio
import contextvars
from typing import Any

import grpc

from ..aio_ends import WAYS, AioEnds, Read, attempt, read, taken, until
from ..both import Held, echo
from ..ends import path
from ..records import PATIENCE_S, Record, Way, argument
from ..registry import case, each


async def _abort(read: Read, context: Any) -> None:
    await asyncio.sleep(0.05)
    await context.abort(grpc.StatusCode.ABORTED, "so it goes")


@each(way=WAYS)
async def a_call_is_cancelled_at_once(ends: AioEnds, way: Way) -> Record:
    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, Held(ends).answer)))
    seen: Record = {"cancelling": call.cancel(), "again": call.cancel()}
    seen["response"] = await (taken(call) if way.arity.endswith("stream") else attempt(call))
    return {**seen, **await ends.ended(call)}


@each(arity=("unary_unary", "stream_unary"), ending=("success", "failure"))
async def a_task_that_awaits_a_call_is_cancelled_just_when_that_has_ended(
    ends: AioEnds, arity: str, ending: str
) -> Record:
    held = Held(ends)
    behaviour = ends.behaviour(arity, held.answer if ending == "success" else _abort)
    call = (await ends.method(arity, behaviour))(argument(arity))

    async def wait() -> Any:
        return await call

    task = asyncio.ensure_future(wait())
    call.add_done_callback(lambda _: task.cancel())
    held.let_go()
    return {"outcome": await attempt(task), **await ends.ended(call)}


@each(style=("await", "iterate", "read"))
async def a_task_that_waits_for_a_call_is_cancelled(ends: AioEnds, style: str) -> Record:
    arity, held = "unary_unary" if style == "await" else "unary_stream", Held(ends)
    call = (await ends.method(arity, ends.behaviour(arity, held.answer)))(b"request")

    async def wait() -> Any:
        return await {"await": lambda: call, "iterate": lambda: anext(aiter(call)), "read": lambda: call.read()}[
            style
        ]()

    task = asyncio.ensure_future(wait())
    seen: Record = {"begun": await held.begun.happened(), "task": task.cancel()}
    return {**seen, "outcome": await attempt(task), **await ends.ended(call), "told": await held.told.happened()}


@each(ending=("success", "failure", "cancellation"))
async def done_callbacks_come_once_and_in_order(ends: AioEnds, ending: str) -> Record:
    gate, told, where = ends.gate(), [], contextvars.ContextVar("where", default="made elsewhere")

    async def behaviour(request: bytes, context: Any) -> bytes:
        if request == b"connects":
            return request
        await gate.happened()
        if ending == "failure":
            await context.abort(grpc.StatusCode.ABORTED, "so it goes")
        return request

    method = await ends.unary_unary(behaviour)
    await method(b"connects", timeout=PATIENCE_S)  # or the call is sent later, in another context
    where.set("caller")
    call = method(b"request")
    where.set("later")
    call.add_done_callback(lambda one: told.append(("first", where.get(), one is call, one.done())))
    call.add_done_callback(lambda one: told.append(("second", one is call, one.done())))
    await asyncio.sleep(0.05)
    if ending == "cancellation":
        call.cancel()
    gate.set()
    seen: Record = {"outcome": await attempt(call), "told": await until(lambda: len(told) == 2)}
    call.add_done_callback(lambda one: told.append(("late", one is call, one.done())))
    return {**seen, "late": await until(lambda: len(told) == 3), "order": told}


@each(arity=("unary_unary", "unary_stream"), ending=("success", "failure"))
async def a_done_callback_that_raises_stops_the_others(ends: AioEnds, arity: str, ending: str) -> Record:
    loop, told, blamed = asyncio.get_running_loop(), list[str](), list[str]()
    held = Held(ends)
    method = await ends.method(arity, ends.behaviour(arity, held.answer if ending == "success" else _abort))
    loop.set_exception_handler(lambda _, context: blamed.append(repr(context.get("exception"))))
    call = method(argument(arity), timeout=PATIENCE_S)

    def fail(_: Any) -> None:
        told.append("fails")
        raise RuntimeError("a defect of the callback")

    for callback in (lambda _: told.append("first"), fail, lambda _: told.append("third")):
        call.add_done_callback(callback)
    if ending == "success":
        await asyncio.sleep(0.05)
        held.let_go()
    seen: Record = {"outcome": await _whatever(_answer(call, arity)), "code": (await call.code()).name}
    held.let_go()
    await until(lambda: len(told) >= 2)
    seen["late"] = await _whatever(_add_late(call, fail))
    await asyncio.sleep(0.05)  # what is not to come has had its chance
    return {**seen, "told": told, "blamed": blamed}


async def _answer(call: Any, arity: str) -> Any:
    return [item async for item in call] if arity.endswith("stream") else await call


async def _add_late(call: Any, callback: Any) -> None:
    call.add_done_callback(callback)


async def _whatever(outcome: Any) -> str:
    """Return what came of it, an error in one line: also one that is no exception of the call's."""
    try:
        return repr(await outcome)
    except grpc.RpcError as error:
        return f"{type(error).__name__}: {error.details()}"  # pyright: ignore[reportAttributeAccessIssue]
    except Exception as error:
        return repr(error)


@each(ending=("success", "failure"))
async def a_call_is_awaited_twice(ends: AioEnds, ending: str) -> Record:
    behaviour = ends.behaviour("unary_unary", echo if ending == "success" else _abort)
    call = (await ends.unary_unary(behaviour))(b"request")
    return {"first": await attempt(call), "second": await attempt(call)}


@each(way=WAYS)
async def waiting_for_the_connection(ends: AioEnds, way: Way) -> Record:
    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, echo)))
    return {"connected": await attempt(call.wait_for_connection()), "finish": await ends.finish(way, call)}


@each(way=[way for way in WAYS if way.arity.endswith("stream")])
async def waiting_for_no_server(ends: AioEnds, way: Way) -> Record:
    call = ends.start(way, getattr(ends.connect(ends.address()), way.arity)(path()))
    return {"connected": await attempt(call.wait_for_connection()), "code": (await call.code()).name}


@case
async def reading_and_iterating_after_the_end(ends: AioEnds) -> Record:
    method = await ends.unary_stream(ends.behaviour("unary_stream", echo))
    one, other = method(b"request"), method(b"request")
    seen: Record = {"first": await read(one), "again": await read(one), "and again": await attempt(one.read())}
    return {**seen, "other": await taken(other), "then": await taken(other), "same": aiter(other) is aiter(other)}


@each(first=("iterate", "read"))
async def styles_of_reading_do_not_mix(ends: AioEnds, first: str) -> Record:
    held = Held(ends)
    call = (await ends.unary_stream(ends.behaviour("unary_stream", held.answer, b"one")))(b"request")
    seen: Record = {"first": await (read(call, 1) if first == "read" else taken(call, 1))}

    async def mix() -> Any:
        return await (anext(aiter(call)) if first == "read" else call.read())

    seen["mixed"] = await attempt(mix())
    held.let_go()
    return seen
