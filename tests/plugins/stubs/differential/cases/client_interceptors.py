"""Interceptors on the client: `grpc.intercept_channel` over either channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, THREADS, WAYS, AioEnds, Driver, OverThreads, Read, echo, run
from ..ends import ARITIES, Ends, method_handler, path
from ..records import (
    PATIENCE_S,
    Diary,
    Record,
    Way,
    argument,
    attempt,
    classes,
    entries,
    plain,
    state,
)
from ..registry import case, each


@dataclass(frozen=True)
class Details(grpc.ClientCallDetails):
    """What an interceptor may change about a call."""

    method: str
    timeout: float | None = None
    metadata: Any = None
    credentials: Any = None
    wait_for_ready: bool | None = None
    compression: Any = None

    @classmethod
    def of(cls, details: Any, **changes: Any) -> Details:
        """Return a copy of any implementation's details, with changes."""
        given: dict[str, Any] = {field.name: getattr(details, field.name, None) for field in fields(cls)}
        return cls(**{**given, **changes})


_KINDS = tuple(getattr(grpc, f"{arity.title().replace('_', '')}ClientInterceptor") for arity in ARITIES)


def _of_all_kinds(around: Callable[..., Any]) -> Any:
    """Return an interceptor of all four kinds at once: what `around(continuation, details, request)` does."""
    methods = {f"intercept_{arity}": lambda _, *given: around(*given) for arity in ARITIES}
    return type("Interceptor", _KINDS, methods)()


def _interceptor(ends: Driver, arity: str, around: Callable[..., Any]) -> Any:
    """Return an interceptor of calls of this arity that awaits `around(continuation, details, request)`."""
    if isinstance(ends, OverThreads):

        def blocking(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
            async def awaited(*arguments: Any) -> Any:
                return continuation(*arguments)

            return run(around(awaited, details, request))

        return _of_all_kinds(blocking)

    async def intercept(self: Any, continuation: Any, details: Any, request: Any) -> Any:
        return await around(continuation, details, request)

    kind = getattr(grpc.aio, f"{arity.title().replace('_', '')}ClientInterceptor")
    return type("Interceptor", (kind,), {f"intercept_{arity}": intercept})()


async def _method(ends: Driver, arity: str, answer: Any, *around: Callable[..., Any]) -> Any:
    """Serve a method; return its multi-callable with these interceptors."""
    behaviour = ends.behaviour(arity, answer, b"first")
    served = await ends.serve({"Method": method_handler(arity, behaviour)})
    interceptors = [_interceptor(ends, arity, one) for one in around]
    if isinstance(ends, OverThreads):
        channel = grpc.intercept_channel(ends.connect(served.target), *interceptors)
    else:
        channel = ends.connect(served.target, interceptors=interceptors)
    return getattr(channel, arity)(path())


@each(BOTH, way=WAYS)
async def are_called_in_order(ends: Driver, way: Way) -> Record:
    diary: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        async def around(continuation: Any, details: Any, request: Any) -> Any:
            diary.append((name, "before", details.method))
            call = await continuation(details, request)
            diary.append((name, "after", "Call" in classes(call), "Future" in classes(call)))
            return call

        return around

    method = await _method(ends, way.arity, echo, noting("outer"), noting("inner"))
    return {"call": await ends.invoke(way, method), "diary": diary}


@each(BOTH, way=WAYS)
async def may_add_metadata(ends: Driver, way: Way) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        added = (*(details.metadata or ()), ("added", "yes"))
        if ends.driver == ASYNCIO:
            return await continuation(details._replace(metadata=grpc.aio.Metadata(*added)), request)
        return await continuation(Details.of(details, metadata=added), request)

    async def answer(read: Read, context: Any) -> bytes:
        await read()
        return repr(entries(context.invocation_metadata())).encode()

    return await ends.invoke(way, await _method(ends, way.arity, answer, around), metadata=(("own", "yes"),))


@each(BOTH, way=WAYS)
async def may_shorten_the_deadline(ends: Driver, way: Way) -> Record:
    gate = ends.gate()

    async def around(continuation: Any, details: Any, request: Any) -> Any:
        change = details._replace if ends.driver == ASYNCIO else partial(Details.of, details)
        return await continuation(change(timeout=0.5), request)

    async def answer(read: Read, context: Any) -> bytes:
        await read()
        await gate.happened()
        return b"too late"

    return await ends.invoke(way, await _method(ends, way.arity, answer, around), timeout=PATIENCE_S)


@each(BOTH, way={THREADS: WAYS[THREADS], ASYNCIO: [Way(arity, "iterate") for arity in ARITIES]})
async def may_fail(ends: Driver, way: Way) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        raise RuntimeError("a defect of the interceptor")

    method = await _method(ends, way.arity, echo, around)
    if isinstance(ends, OverThreads):
        return await ends.invoke(way, method)
    return await ends.result(way, ends.start(way, method))


@each((THREADS,), way=WAYS)
async def see_the_error_of_a_call(ends: OverThreads, way: Way) -> Record:
    diary = Diary()

    async def around(continuation: Any, details: Any, request: Any) -> Any:
        call = await continuation(details, request)
        if not way.arity.endswith("stream"):
            diary.note(plain(call.exception()))
            diary.note(state(call))
        return call

    async def abort(read: Read, context: Any) -> None:
        await read()
        await context.abort(grpc.StatusCode.ABORTED, "so it goes")

    method = await _method(ends, way.arity, abort, around)
    return {"call": await ends.invoke(way, method), "diary": diary.after(0)}


class _Cached:
    """As much of an ended call as an interceptor needs to answer one itself."""

    def result(self, timeout: float | None = None) -> bytes:
        """Return the response."""
        return b"cached"


@each((THREADS,), arity=("unary_unary", "stream_unary"))
async def may_answer_themselves(ends: OverThreads, arity: str) -> Record:
    async def around(*_: Any) -> _Cached:
        return _Cached()

    method = await _method(ends, arity, echo, around)
    return {
        "blocking": attempt(method, argument(arity)),
        "future": attempt(lambda: method.future(argument(arity)).result()),
        "with_call": attempt(lambda: method.with_call(argument(arity))[0]),
    }


@each((THREADS,), arity=("unary_stream", "stream_stream"))
async def may_change_the_items(ends: OverThreads, arity: str) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Iterator[bytes]:
        call = await continuation(details, request)
        return (item.upper() for item in call)

    return await ends.taken(await _method(ends, arity, echo, around), argument(arity))


@each((THREADS,), way=WAYS)
async def may_change_the_request(ends: OverThreads, way: Way) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        changed = (each.upper() for each in request) if way.arity.startswith("stream") else request.upper()
        return await continuation(details, changed)

    return await ends.invoke(way, await _method(ends, way.arity, echo, around))


@each(BOTH)
async def may_try_again(ends: Driver) -> Record:
    tries: list[int] = []

    async def around(continuation: Any, details: Any, request: Any) -> Any:
        call = await continuation(details, request)
        return call if await ends.code(call) == "OK" else await continuation(details, request)

    async def answer(read: Read, context: Any) -> bytes:
        tries.append(1)
        if len(tries) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
        return await read()

    method = await _method(ends, "unary_unary", answer, around)
    return {"call": await ends.attempt(method, b"request"), "tries": len(tries)}


@each((THREADS,))
async def see_what_the_caller_asked_for(ends: OverThreads) -> Record:
    diary = Diary()

    async def around(continuation: Any, details: Any, request: Any) -> Any:
        diary.note((str(details.method), details.timeout, details.metadata, details.wait_for_ready))
        return await continuation(details, request)

    method = await _method(ends, "unary_unary", echo, around)
    method(b"request", timeout=7, metadata=(("key", "value"),), wait_for_ready=True)
    method(b"request")
    return {"diary": diary.after(2)}


@each(BOTH)
async def must_be_interceptors(ends: Driver) -> Record:
    stranger: Any = "no interceptor"
    if ends.driver == THREADS:
        return attempt(grpc.intercept_channel, ends.connect(ends.address()), stranger)
    return attempt(lambda: ends.connect(ends.address(), interceptors=[stranger]) and None)


@each((ASYNCIO,))
async def of_asyncio_may_answer_themselves(ends: AioEnds) -> Record:
    async def around(continuation: Any, details: Any, request: Any) -> Any:
        return b"cached"

    return await ends.invoke(WAYS[ASYNCIO][0], await _method(ends, "unary_unary", echo, around))


@case
def leave_the_channel_a_channel(ends: Ends) -> Record:
    served = ends.serve({"Method": method_handler("unary_unary", lambda request, context: request)})
    passing = _of_all_kinds(lambda continuation, details, request: continuation(details, request))
    with grpc.intercept_channel(ends.connect(served.target), passing) as channel:
        ready = grpc.channel_ready_future(channel)
        seen = {"ready": attempt(ready.result, timeout=PATIENCE_S), "channel": isinstance(channel, grpc.Channel)}
        return {**seen, "response": attempt(channel.unary_unary(path()), b"request")}
