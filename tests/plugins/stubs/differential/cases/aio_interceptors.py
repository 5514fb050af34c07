"""Interceptors of grpc.aio on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import answering, attempt, status, taken
from ..ends import ARITIES, method_handler, path
from ..invoking import argument
from ..records import Record, entries
from ..registry import case, each

KINDS = {
    "unary_unary": grpc.aio.UnaryUnaryClientInterceptor,
    "unary_stream": grpc.aio.UnaryStreamClientInterceptor,
    "stream_unary": grpc.aio.StreamUnaryClientInterceptor,
    "stream_stream": grpc.aio.StreamStreamClientInterceptor,
}


def _client(arity: str, around: Callable[..., Any]) -> Any:
    """Return an interceptor of one arity that does what `around(continuation, details, request)` does."""

    async def intercept(self: Any, continuation: Any, details: Any, request: Any) -> Any:
        return await around(continuation, details, request)

    return type("Interceptor", (KINDS[arity],), {f"intercept_{arity}": intercept})()


class _Server(grpc.aio.ServerInterceptor):
    def __init__(self, around: Callable[..., Any]) -> None:
        self._around = around

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call."""
        return await self._around(continuation, handler_call_details)


async def _echo(request: bytes, context: Any) -> bytes:
    return request


async def _result(arity: str, call: Any) -> Record:
    seen = await (taken(call) if arity.endswith("stream") else attempt(call))
    return {"response": seen, **await status(call)}


async def _intercepted(ends: AioEnds, arity: str, *around: Callable[..., Any], answer: Any = _echo) -> Record:
    served = await ends.serve({"Method": method_handler(arity, answering(arity, answer))})
    channel = ends.connect(served.target, interceptors=[_client(arity, one) for one in around])
    return await _result(arity, getattr(channel, arity)(path())(argument(arity)))


@each(arity=ARITIES)
async def of_the_client_are_called_in_order(ends: AioEnds, arity: str) -> Record:
    diary: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        async def around(continuation: Any, details: Any, request: Any) -> Any:
            diary.append((name, "before", details.method))
            call = await continuation(details, request)
            diary.append((name, "after"))
            return call

        return around

    return {"call": await _intercepted(ends, arity, noting("outer"), noting("inner")), "diary": diary}


@each(arity=ARITIES)
async def of_the_client_may_add_metadata(ends: AioEnds, arity: str) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        changed = details._replace(metadata=grpc.aio.Metadata(("added", "yes")))
        return await continuation(changed, request)

    async def answer(request: bytes, context: Any) -> bytes:
        return repr(entries(context.invocation_metadata())).encode()

    return await _intercepted(ends, arity, around, answer=answer)


@each(arity=ARITIES)
async def of_the_client_may_fail(ends: AioEnds, arity: str) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        raise RuntimeError("a defect of the interceptor")

    served = await ends.serve({"Method": method_handler(arity, answering(arity, _echo))})
    channel = ends.connect(served.target, interceptors=[_client(arity, around)])
    call = getattr(channel, arity)(path())(argument(arity))
    return await (taken(call) if arity.endswith("stream") else attempt(call))


@case
async def of_the_client_may_answer_themselves(ends: AioEnds) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        return b"cached"

    return await _intercepted(ends, "unary_unary", around)


@case
async def of_the_client_may_try_again(ends: AioEnds) -> Record:
    tries: list[int] = []

    async def around(continuation: Any, details: Any, request: Any) -> Any:
        call = await continuation(details, request)
        return call if await call.code() is grpc.StatusCode.OK else await continuation(details, request)

    async def answer(request: bytes, context: Any) -> bytes:
        tries.append(1)
        if len(tries) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
        return request

    return {"call": await _intercepted(ends, "unary_unary", around, answer=answer), "tries": len(tries)}


@case
async def of_the_client_must_be_interceptors(ends: AioEnds) -> Record:
    try:
        ends.connect(ends.address(), interceptors=["no interceptor"])
    except Exception as raised:
        return {"class": type(raised).__name__, "text": str(raised)}
    return {"class": None}


async def _serving(ends: AioEnds, arity: str, *around: Callable[..., Any]) -> Record:
    interceptors = [_Server(one) for one in around]
    method = await ends.method(arity, answering(arity, _echo), interceptors=interceptors)
    return await _result(arity, method(argument(arity)))


@each(arity=ARITIES)
async def of_the_server_are_called_in_order(ends: AioEnds, arity: str) -> Record:
    diary: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        async def around(continuation: Any, details: Any) -> Any:
            diary.append((name, "before", details.method, entries(details.invocation_metadata)))
            handler = await continuation(details)
            diary.append((name, "after", handler is not None))
            return handler

        return around

    return {"call": await _serving(ends, arity, noting("outer"), noting("inner")), "diary": diary}


@each(arity=("unary_unary", "unary_stream"))
async def of_the_server_may_refuse(ends: AioEnds, arity: str) -> Record:
    async def deny(request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    async def around(continuation: Any, details: Any) -> Any:
        return method_handler(arity, deny)

    return await _serving(ends, arity, around)


@each(arity=("unary_unary", "unary_stream"))
async def of_the_server_may_have_no_handler(ends: AioEnds, arity: str) -> Record:
    async def around(continuation: Any, details: Any) -> Any:
        return None

    return await _serving(ends, arity, around)


@case
async def of_the_server_may_wrap_the_handler(ends: AioEnds) -> Record:
    async def around(continuation: Any, details: Any) -> Any:
        inner = (await continuation(details)).unary_unary

        async def outer(request: bytes, context: Any) -> bytes:
            return (await inner(request, context)).upper()

        return method_handler("unary_unary", outer)

    return await _serving(ends, "unary_unary", around)
