"""Interceptors on the server."""

import contextvars
from collections.abc import Callable
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, THREADS, WAYS, Driver, Read, echo, run
from ..ends import ARITIES, method_handler, path
from ..records import Record, attempt, entries
from ..registry import each


class Interceptor(grpc.ServerInterceptor):
    """What `around(continuation, details)` does."""

    def __init__(self, around: Callable[[Callable[..., Any], Any], Any]) -> None:
        self._around = around

    def intercept_service(self, continuation: Callable[..., Any], handler_call_details: Any) -> Any:
        """Return the handler of a call, or None where it has none."""
        return self._around(continuation, handler_call_details)


class _AioInterceptor(grpc.aio.ServerInterceptor):
    """What `around(continuation, details)` does, awaited."""

    def __init__(self, around: Callable[..., Any]) -> None:
        self._around = around

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, or None where it has none."""
        return await self._around(continuation, handler_call_details)


def _interceptor(ends: Driver, around: Callable[..., Any]) -> Any:
    """Return an interceptor that awaits `around(continuation, details)`."""
    if ends.driver == ASYNCIO:
        return _AioInterceptor(around)

    def blocking(continuation: Callable[..., Any], details: Any) -> Any:
        async def awaited(given: Any) -> Any:
            return continuation(given)

        return run(around(awaited, details))

    return Interceptor(blocking)


async def _call(ends: Driver, arity: str, *around: Any, answer: Any = echo, **options: Any) -> Record:
    behaviour = ends.behaviour(arity, answer)
    method = await ends.method(arity, behaviour, interceptors=[_interceptor(ends, one) for one in around])
    return await ends.invoke(next(way for way in WAYS[ends.driver] if way.arity == arity), method, **options)


@each(BOTH, arity=ARITIES)
async def are_called_in_order(ends: Driver, arity: str) -> Record:
    diary: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        async def around(continuation: Any, details: Any) -> Any:
            diary.append((name, "before", details.method, entries(details.invocation_metadata)))
            handler = await continuation(details)
            diary.append((name, "after", handler is not None))
            return handler

        return around

    sent = {"metadata": (("key", "value"), ("key-bin", b"\x00"))}
    return {"call": await _call(ends, arity, noting("outer"), noting("inner"), **sent), "diary": diary}


@each(BOTH, arity={THREADS: ARITIES, ASYNCIO: ARITIES[:2]}, how=("refuses", "has no handler", "fails"))
async def may_end_a_call(ends: Driver, arity: str, how: str) -> Record:
    async def deny(read: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    async def around(continuation: Any, details: Any) -> Any:
        if how == "fails":
            raise RuntimeError("a defect of the interceptor")
        return method_handler(arity, ends.behaviour(arity, deny)) if how == "refuses" else None

    return await _call(ends, arity, around)


@each(BOTH)
async def are_asked_for_unknown_methods_too(ends: Driver) -> Record:
    diary: list[Any] = []

    async def around(continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        diary.append((details.method, handler is not None))
        return handler

    served = await ends.serve({}, interceptors=[_interceptor(ends, around)])
    return {"call": await ends.attempt(ends.connect(served.target).unary_unary(path()), b"request"), "diary": diary}


@each(BOTH)
async def may_wrap_the_handler(ends: Driver) -> Record:
    async def around(continuation: Any, details: Any) -> Any:
        inner = (await continuation(details)).unary_unary

        async def answer(read: Read, context: Any) -> bytes:
            response = inner(await read(), getattr(context, "given", context))
            return (response if ends.driver == THREADS else await response).upper()

        return method_handler("unary_unary", ends.behaviour("unary_unary", answer))

    return await _call(ends, "unary_unary", around)


# grpc.aio takes its own class alone.
@each((THREADS,))
async def may_send_a_call_elsewhere(ends: Driver) -> Record:
    class Elsewhere(grpc.HandlerCallDetails):
        method = path("Other")
        invocation_metadata = ()

    def saying(text: bytes) -> Any:
        async def answer(read: Read, context: Any) -> bytes:
            return text

        return method_handler("unary_unary", ends.behaviour("unary_unary", answer))

    async def around(continuation: Any, details: Any) -> Any:
        return await continuation(Elsewhere())

    methods = {"Method": saying(b"here"), "Other": saying(b"there")}
    served = await ends.serve(methods, interceptors=[_interceptor(ends, around)])
    return await ends.attempt(ends.connect(served.target).unary_unary(path()), b"request")


@each(BOTH)
async def must_be_interceptors(ends: Driver) -> Record:
    seen = attempt(lambda: ends.server(interceptors=("no interceptor",)) and None)
    return {"classes": seen.get("raised", {}).get("classes")}  # the text of grpc.aio is a template


@each(BOTH)
async def share_their_context_variables_with_the_handler(ends: Driver) -> Record:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")

    async def around(continuation: Any, details: Any) -> Any:
        variable.set(f"{variable.get()}, from the interceptor")
        return await continuation(details)

    async def answer(read: Read, context: Any) -> bytes:
        return variable.get().encode()

    return {"calls": [await _call(ends, "unary_unary", around, around, answer=answer) for _ in range(2)]}
