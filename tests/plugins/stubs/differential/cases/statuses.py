"""Codes and details: what the handler set, in every way it can, and what the client is told."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, THREADS, AioEnds, Driver, OverThreads
from ..ends import ARITIES, Ends
from ..records import PATIENCE_S, Record, Way, argument, attempt, entries, plain, taken
from ..registry import each

CODES = tuple(code.name for code in grpc.StatusCode)

DETAILS = {
    "empty": "",
    "ascii": "as it is",
    "unicode": "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n",
    "percent": "100 % of %41 and %zz",
    "quotes": "\"'\\",
    "long": "x" * 2_000,
}


@dataclass(frozen=True)
class Status(grpc.Status):
    """The smallest implementation of grpc.Status."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: Any = None


async def told(ends: Driver, act: Callable[[Any], Awaitable[Any]]) -> Record:
    """Return what the caller of a unary method sees whose handler does this with its context."""
    way = Way("unary_unary", "with_call" if ends.driver == THREADS else "await")
    behaviour = ends.behaviour("unary_unary", lambda _, context: act(context))
    return await ends.invoke(way, await ends.method("unary_unary", behaviour))


@each(BOTH, code=CODES)
async def the_code_is_set(ends: Driver, code: str) -> Record:
    async def act(context: Any) -> bytes:
        context.set_code(grpc.StatusCode[code])
        context.set_details("details")
        return b"response"

    return await told(ends, act)


@each(BOTH, code={THREADS: CODES, ASYNCIO: [code for code in CODES if code != "OK"]})
async def the_call_is_aborted(ends: Driver, code: str) -> Record:
    return await told(ends, lambda context: context.abort(grpc.StatusCode[code], "details"))


@each(BOTH, details=tuple(DETAILS))
async def details_are_said_as_they_are(ends: Driver, details: str) -> Record:
    return await told(ends, lambda context: context.abort(grpc.StatusCode.ABORTED, DETAILS[details]))


@each(BOTH, details=tuple(DETAILS))
async def an_exception_is_quoted(ends: Driver, details: str) -> Record:
    async def fail(context: Any) -> None:
        raise ValueError(DETAILS[details])

    return await told(ends, fail)


@each(BOTH)
async def details_without_a_code(ends: Driver) -> Record:
    async def act(context: Any) -> bytes:
        context.set_details("all well")
        return b"response"

    return await told(ends, act)


@each(BOTH, details=("", "nowhere"), response=(None, b"response"))
async def a_code_is_set_with_or_without_a_response(ends: Driver, details: str, response: bytes | None) -> Record:
    async def act(context: Any) -> bytes | None:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        if details:
            context.set_details(details)
        return response

    return await told(ends, act)


@each(BOTH, value=(5, 99, "NOT_FOUND"))
async def a_code_that_is_no_status_code(ends: Driver, value: Any) -> Record:
    async def act(context: Any) -> bytes:
        context.set_code(value)
        return b"response"

    return await told(ends, act)


@each((THREADS,), value=(b"bytes", 5))
async def details_that_are_no_text(ends: OverThreads, value: Any) -> Record:
    async def act(context: Any) -> bytes:
        context.set_details(value)
        context.set_code(grpc.StatusCode.ABORTED)
        return b"response"

    return await told(ends, act)


@each(BOTH)
async def aborting_with_something_that_is_no_code(ends: Driver) -> Record:
    return await told(ends, lambda context: context.abort(5, "details"))


@each(BOTH)
async def a_code_is_set_before_an_exception(ends: Driver) -> Record:
    async def act(context: Any) -> None:
        context.set_code(grpc.StatusCode.DATA_LOSS)
        context.set_details("half of it")
        context.set_trailing_metadata((("lost", "half"),))
        raise RuntimeError("boom")

    return await told(ends, act)


@each((THREADS,), early=((), (("early", "yes"),)))
async def aborting_with_a_status_replaces_trailing_metadata(ends: OverThreads, early: Any) -> Record:
    async def act(context: Any) -> None:
        context.set_trailing_metadata(early)
        context.abort_with_status(Status(grpc.StatusCode.INTERNAL, "details", (("key", "value"), ("key-bin", b"\x00"))))

    return await told(ends, act)


@each(BOTH)
async def aborting_keeps_trailing_metadata(ends: Driver) -> Record:
    async def act(context: Any) -> None:
        await context.send_initial_metadata((("first", "yes"),))
        context.set_trailing_metadata((("last", "yes"),))
        await context.abort(grpc.StatusCode.INTERNAL, "details")

    return await told(ends, act)


@each(BOTH)
async def an_abort_that_is_caught_still_aborts(ends: Driver) -> Record:
    async def act(context: Any) -> bytes:
        try:
            await context.abort(grpc.StatusCode.ABORTED, "caught")
        except Exception as raised:
            context.set_trailing_metadata((("raised", type(raised).__name__),))
        return b"a response after all"

    return await told(ends, act)


@each(BOTH)
async def an_abort_is_followed_by_an_error(ends: Driver) -> Record:
    async def act(context: Any) -> None:
        try:
            await context.abort(grpc.StatusCode.ABORTED, "first")
        finally:
            raise ValueError("second")

    return await told(ends, act)


@each(BOTH)
async def a_handler_reads_back_what_it_set(ends: Driver) -> Record:
    seen: list[Any] = []

    async def act(context: Any) -> bytes:
        seen.extend((plain(context.code()), context.details(), entries(context.trailing_metadata())))
        context.set_code(grpc.StatusCode.ABORTED)
        context.set_details("details")
        context.set_trailing_metadata((("key", "value"),))
        seen.extend((plain(context.code()), context.details(), entries(context.trailing_metadata())))
        return b"response"

    return {"call": await told(ends, act), "read": seen}


@each(arity=ARITIES)
def a_handler_cancels_its_own_call(ends: Ends, arity: str) -> Record:
    def behaviour(request: Any, context: Any) -> Any:
        context.cancel()
        return iter((b"response",)) if arity.endswith("stream") else b"response"

    call = ends.method(arity, behaviour)
    if arity.endswith("stream"):
        return taken(call(argument(arity)))
    return attempt(call, argument(arity))


@each((THREADS,))
async def an_exception_without_a_text(ends: OverThreads) -> Record:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    async def fail(context: Any) -> None:
        raise Silent

    return await told(ends, fail)


@each(raised=(RuntimeError("boom"), KeyError("key"), StopIteration("stop"), grpc.RpcError("an RpcError")))
def an_exception_of_any_class(ends: Ends, raised: Exception) -> Record:
    def fail(request: bytes, context: Any) -> None:
        raise raised

    return attempt(ends.unary_unary(fail).with_call, b"request")


@each((ASYNCIO,))
async def aborting_twice(ends: AioEnds) -> Record:
    seen: list[Any] = []
    ended = asyncio.Event()

    async def act(context: Any) -> None:
        for code in (grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL):
            try:
                await context.abort(code, code.name)
            except BaseException as raised:
                seen.append((type(raised).__mro__[1].__name__, str(raised)))
        ended.set()
        raise RuntimeError("a third time")

    call = await told(ends, act)
    await asyncio.wait_for(ended.wait(), PATIENCE_S)  # the caller has its status after the first
    return {"call": call, "there": seen}


@each((ASYNCIO,))
async def an_abort_takes_trailing_metadata(ends: AioEnds) -> Record:
    async def act(context: Any) -> None:
        context.set_trailing_metadata((("early", "yes"),))
        await context.abort(grpc.StatusCode.ABORTED, "details", trailing_metadata=(("late", "yes"),))

    return await told(ends, act)
