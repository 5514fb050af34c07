"""What a handler learns from its context, before and after its call has ended."""

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from .. import aio_ends
from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, AioEnds, Driver, OverThreads, Read
from ..ends import ARITIES, Ends, method_handler, path
from ..records import EXPIRIES_S, PATIENCE_S, Diary, Record, Way, argument, attempt, classes, happened
from ..registry import case, each


async def _asked(ends: Driver, answer: Any, times: int = 1, **options: Any) -> Any:
    """Return what callers get from a unary method that such a handler serves."""
    method = await ends.method("unary_unary", ends.behaviour("unary_unary", answer), **options)
    return [await ends.attempt(method, b"request", timeout=PATIENCE_S) for _ in range(times)]


@each(BOTH)
async def is_the_peer(ends: Driver) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        of_peer = type(context.peer()).__name__, context.peer_identities(), context.peer_identity_key()
        auth = context.auth_context()
        return repr((*of_peer, sorted(auth), auth.get("transport_security_type"))).encode()

    return {"calls": await _asked(ends, answer)}


@each(BOTH)
async def is_a_servicer_context(ends: Driver) -> Record:
    kind = grpc.ServicerContext if ends.driver == THREADS else grpc.aio.ServicerContext

    async def answer(read: Read, context: Any) -> bytes:
        given = getattr(context, "given", context)
        return f"{isinstance(given, kind)} {classes(given)}".encode()

    (seen,) = await _asked(ends, answer)
    return seen


@each(BOTH, timeout=(None, 5.0))
async def is_the_time_remaining(ends: Driver, timeout: float | None) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        left = context.time_remaining()
        return f"{type(left).__name__} {left is None or (left < 6, left > 1_000_000)}".encode()

    method = await ends.method("unary_unary", ends.behaviour("unary_unary", answer))
    return await ends.attempt(method, b"request", timeout=timeout)


@each((THREADS,), way=FREE_WAYS)
async def is_active_until_the_end(ends: OverThreads, way: Way) -> Record:
    diary = Diary()

    async def answer(read: Read, context: Any) -> bytes:
        await read()
        added = context.add_callback(lambda: diary.note(("over", context.is_active())))
        diary.note(("running", context.is_active(), added))
        return b"response"

    seen = await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, answer)))
    return {"call": seen, "diary": diary.after(2)}


@each((THREADS,), way=FREE_WAYS)
async def is_inactive_after_a_cancel(ends: OverThreads, way: Way) -> Record:
    diary, there, told = Diary(), ends.flag(), ends.flag()

    async def wait(read: Read, context: Any) -> bytes:
        context.add_callback(told.set)
        there.set()
        diary.note(await told.happened())
        diary.note(context.is_active())
        diary.note(context.add_callback(lambda: None))
        diary.note(attempt(context.given.send_initial_metadata, ()))
        diary.note(context.time_remaining() > 0)
        diary.note(attempt(context.set_trailing_metadata, (("key", "value"),)))
        diary.note(attempt(context.cancel))
        return b"too late"

    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, wait)))
    seen = {"begun": await there.happened(), "cancel": call.cancel()}
    return {**seen, "handler": diary.after(7)}


@each((THREADS,), way=FREE_WAYS)
async def is_inactive_after_the_deadline(ends: OverThreads, way: Way) -> Record:
    seen: Any = None
    diary = Diary()
    for timeout in EXPIRIES_S:
        there = ends.flag()

        async def wait(read: Read, context: Any, there: Any = there) -> bytes:
            there.set()
            told = ends.flag()
            if not context.add_callback(told.set):
                told.set()  # on a busy machine the deadline may come before the handler
            diary.note(await told.happened())
            diary.note(context.is_active())
            diary.note(context.time_remaining() < 1)
            return b"too late"

        call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, wait)), timeout=timeout)
        seen = await ends.result(way, call)
        if there.is_set():
            break
    return {"seen": seen, "handler": diary.after(3)}


@each(BOTH, failing=("nothing", "a callback", "the handler"))
async def tells_callbacks_once_and_in_order(ends: Driver, failing: str) -> Record:
    """A callback that fails stops the others of grpc.aio, and of threads none."""
    diary = Diary()

    def tell(name: str, told: Any, context: Any) -> None:
        diary.note((name, told is context))
        if failing == "a callback" and name == "second":
            raise RuntimeError("a defect of the callback")

    async def answer(read: Read, context: Any) -> bytes:
        for name in ("first", "second", "third"):
            context.add_done_callback(lambda told, name=name: tell(name, told, context))
        if failing == "the handler":
            raise RuntimeError("boom")
        return await read()

    calls = await _asked(ends, answer, 2)
    return {
        "calls": calls,
        "diary": await ends.aside(diary.after, 4 if failing == "a callback" and ends.driver == ASYNCIO else 6),
    }


@case
def refuses_all_after_the_end(ends: Ends) -> Record:
    kept: list[Any] = []
    over = threading.Event()

    def behaviour(requests: Iterator[bytes], context: Any) -> bytes:
        kept.extend((requests, context))
        context.add_callback(over.set)
        return b"+".join(requests)

    attempt(ends.stream_unary(behaviour), argument("stream_unary"))
    seen: Record = {"over": happened(over)}
    requests, context = kept
    return {
        **seen,
        "active": context.is_active(),
        "add_callback": context.add_callback(lambda: None),
        "cancel": attempt(context.cancel),
        "request": attempt(next, requests),
        "set_code": attempt(context.set_code, None),
        "trailing": attempt(context.set_trailing_metadata, (("key", "value"),)),
        "initial": attempt(context.send_initial_metadata, (("key", "value"),)),
    }


@each(BOTH)
async def starts_each_call_with_clean_context_variables(ends: Driver) -> Record:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    ended: set[str] = set()

    async def answer(read: Read, context: Any) -> bytes:
        before = variable.get()
        variable.set("used")
        context.add_done_callback(lambda _: ended.add(variable.get()))
        return before.encode()

    calls = await _asked(ends, answer, 3, **({"workers": 1} if ends.driver == THREADS else {}))
    return {"calls": calls, "ended": ended}


@case
def hands_its_deadline_on_to_calls_of_its_own(ends: Ends) -> Record:
    def inner(request: bytes, context: Any) -> bytes:
        return str(context.time_remaining() < 60).encode()

    served = ends.serve({"Method": method_handler("unary_unary", inner)})
    onward = ends.connect(served.target).unary_unary(path())
    outer = ends.unary_unary(lambda request, context: onward(request))
    return attempt(outer, b"request", timeout=PATIENCE_S)


@each((ASYNCIO,), arity=ARITIES)
async def belongs_to_a_plain_function_too(ends: AioEnds, arity: str) -> Record:
    """An asyncio server runs handlers that are no coroutines in a pool of threads."""
    seen = list[Any]()

    def unary(request: Any, context: Any) -> bytes:
        context.send_initial_metadata((("plain", "yes"),))
        context.set_trailing_metadata((("plain", "yes"),))
        seen.append((0 < context.time_remaining() < 61, context.peer_identities(), context.peer_identity_key()))
        return b"+".join(request) if arity.startswith("stream") else request

    def stream(request: Any, context: Any) -> Any:
        last = unary(request, context)
        yield b"first"
        # Caught: where it ends the stream, one blocking channel of gRPC's in five never hears of it.
        seen.append(attempt(context.send_initial_metadata, (("plain", "yes"),)))
        yield last

    method = await ends.method(arity, stream if arity.endswith("stream") else unary, migration_thread_pool=ends.pool())
    call = method(iter((b"one", b"two")) if arity.startswith("stream") else b"one", timeout=60)
    answer = await (aio_ends.taken(call) if arity.endswith("stream") else aio_ends.attempt(call))
    return {"answer": answer, **await aio_ends.status(call), "seen": seen}


@each((ASYNCIO,), how=("abort", "set", "raise"))
async def ends_a_plain_function(ends: AioEnds, how: str) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        if how == "abort":
            context.abort(grpc.StatusCode.ABORTED, "so it goes")
        if how == "set":
            context.set_code(grpc.StatusCode.DATA_LOSS)
            context.set_details("lost")
            return b""
        raise RuntimeError("boom")

    return await aio_ends.attempt((await ends.unary_unary(behaviour, migration_thread_pool=ends.pool()))(b"request"))
