"""How calls end: success, failure, cancellation and expiry, in every arity and every style of call."""

import asyncio
from typing import Any

import grpc

from ..both import (
    ASYNCIO,
    BOTH,
    FREE_WAYS,
    SAFE_WAYS,
    THREADS,
    WAYS,
    AioEnds,
    Driver,
    Held,
    OverThreads,
    Read,
    echo,
    run,
    ways_of,
)
from ..ends import ARITIES, method_handler, path
from ..records import EXPIRIES_S, PATIENCE_S, Record, Way, attempt
from ..registry import each


@each(BOTH, way=WAYS)
async def succeeds(ends: Driver, way: Way) -> Record:
    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, echo, b"first")))


@each(BOTH, way=WAYS)
async def is_aborted(ends: Driver, way: Way) -> Record:
    async def abort(read: Read, context: Any) -> None:
        await read()
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now", (("why", "later"),))

    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, abort, b"first")))


@each(BOTH, way=WAYS)
async def raises(ends: Driver, way: Way) -> Record:
    async def fail(read: Read, context: Any) -> None:
        await read()
        raise RuntimeError("boom")

    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, fail, b"first")))


@each(BOTH, way=WAYS)
async def answers_nothing(ends: Driver, way: Way) -> Record:
    async def nothing(read: Read, context: Any) -> None:
        await read()

    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, nothing, b"first")))


@each(BOTH, way=WAYS)
async def sets_a_code(ends: Driver, way: Way) -> Record:
    async def refuse(read: Read, context: Any) -> bytes:
        await read()
        context.set_code(grpc.StatusCode.OUT_OF_RANGE)
        context.set_details("too far")
        return b"and yet a response"

    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, refuse, b"first")))


@each(BOTH, way=WAYS)
async def shows_metadata(ends: Driver, way: Way) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        await context.send_initial_metadata((("said", "first"), ("raw-bin", b"\x00\xff")))
        context.set_trailing_metadata((("said", "last"), ("said", "and more")))
        return await read()

    return await ends.invoke(way, await ends.method(way.arity, ends.behaviour(way.arity, answer)))


@each(BOTH, way=WAYS)
async def expires(ends: Driver, way: Way) -> Record:
    gate = ends.gate()
    seen: Record = {}
    for timeout in EXPIRIES_S:
        told, in_time = ends.flag(), ends.flag()

        async def wait(read: Read, context: Any, end: Any = told, early: Any = in_time, s: float = timeout) -> bytes:
            request = await read()
            context.add_done_callback(lambda _: end.set())
            if context.time_remaining() > s / 2:
                early.set()
            await gate.happened()
            return request

        method = await ends.method(way.arity, ends.behaviour(way.arity, wait, b"first"))
        seen = await ends.invoke(way, method, timeout=timeout)
        if in_time.is_set():
            return {**seen, "handler told": await told.happened()}
    return {**seen, "handler": "came late"}


@each(BOTH, way=WAYS)
async def has_expired_before_it_begins(ends: Driver, way: Way) -> Record:
    method = await ends.method(way.arity, ends.behaviour(way.arity, echo, b"first"))
    return await ends.invoke(way, method, timeout=-1)


@each(BOTH, way=FREE_WAYS)
async def is_cancelled(ends: Driver, way: Way) -> Record:
    held, stopped = Held(ends, reads=False), ends.flag()
    kept: list[Any] = []

    async def wait(read: Read, context: Any) -> bytes:
        kept.append(context)
        try:
            return await held.answer(read, context)
        except asyncio.CancelledError:
            stopped.set()
            raise

    method = await ends.method(way.arity, ends.behaviour(way.arity, wait, b"first"))
    call = ends.start(way, method)
    seen: Record = {"begun": await held.begun.happened()}
    if way.arity.endswith("stream"):
        seen["first"] = await ends.first(way, call)
    seen |= {"before": ends.state(call), "cancelling": call.cancel(), "now": ends.state(call)}
    seen |= {"result": await ends.result(way, call), **await ends.ended(call), "told": await held.told.happened()}
    if isinstance(ends, AioEnds):
        seen |= {"handler cancelled": await stopped.happened(), "context": [kept[0].done(), kept[0].cancelled()]}
    return seen


@each(BOTH, way=ways_of("unary_stream"))
async def is_over_once_all_was_taken(ends: Driver, way: Way) -> Record:
    async def abort(read: Read, context: Any) -> None:
        await context.abort(grpc.StatusCode.DATA_LOSS, "the rest is lost")

    method = await ends.method(way.arity, ends.behaviour(way.arity, abort, b"first", b"second"))
    call = ends.start(way, method)
    await ends.invoke(way, method)  # what was sent before has come by now
    seen: Record = {"before": ends.state(call), "first": await ends.first(way, call)}
    return {**seen, "between": ends.state(call), **await ends.finish(way, call)}


@each(BOTH, way=SAFE_WAYS)
async def is_not_implemented(ends: Driver, way: Way) -> Record:
    served = await ends.serve({"Other": method_handler(way.arity, ends.behaviour(way.arity, echo, b"first"))})
    return await ends.invoke(way, getattr(ends.connect(served.target), way.arity)(path()))


@each(BOTH, way=SAFE_WAYS)
async def finds_no_server(ends: Driver, way: Way) -> Record:
    return await ends.invoke(way, getattr(ends.connect(ends.address()), way.arity)(path()), timeout=PATIENCE_S)


@each(BOTH, way=SAFE_WAYS)
async def finds_no_server_and_waits(ends: Driver, way: Way) -> Record:
    method = getattr(ends.connect(ends.address()), way.arity)(path())
    return await ends.invoke(way, method, timeout=0.2, wait_for_ready=True)


def _refuse(_: Any) -> Any:
    raise ValueError("no message")


async def _invoke_coded(ends: Driver, way: Way, codec: dict[str, Any], **of_stub: Any) -> Record:
    """Make a call whose server, or whose stub, has these serializers."""
    behaviour = ends.behaviour(way.arity, echo, b"first")
    served = await ends.serve({"Method": method_handler(way.arity, behaviour, **codec)})
    method = getattr(ends.connect(served.target), way.arity)(path(), **of_stub)
    return await ends.invoke(way, method, timeout=PATIENCE_S)


# Not with streams of requests: gRPC's server then answers twice, and now and then never ends.
@each(BOTH, way=ways_of("unary_unary", "unary_stream"))
async def the_server_cannot_read_the_request(ends: Driver, way: Way) -> Record:
    return await _invoke_coded(ends, way, {"request_deserializer": _refuse})


@each(BOTH, way={**WAYS, ASYNCIO: [way for way in WAYS[ASYNCIO] if way.arity != "stream_stream"]})  # see SAFE_WAYS
async def the_server_cannot_write_the_response(ends: Driver, way: Way) -> Record:
    return await _invoke_coded(ends, way, {"response_serializer": _refuse})


@each(
    BOTH,
    way={**WAYS, ASYNCIO: [Way(arity, "iterate") for arity in ARITIES]},
    place=("request_serializer", "response_deserializer"),
)
async def the_client_cannot_convert(ends: Driver, way: Way, place: str) -> Record:
    served = await ends.serve({"Method": method_handler(way.arity, ends.behaviour(way.arity, echo, b"first"))})
    method = getattr(ends.connect(served.target), way.arity)(path(), **{place: _refuse})
    if isinstance(ends, OverThreads):
        return attempt(lambda: run(ends.invoke(way, method)))
    return await ends.result(way, ends.start(way, method, timeout=1))


@each(BOTH, arities=("stream_unary to unary_unary", "unary_unary to stream_unary", "unary_stream to unary_unary"))
async def meets_a_handler_of_another_arity(ends: Driver, arities: str) -> Record:
    client, server = arities.split(" to ")
    served = await ends.serve({"Method": method_handler(server, ends.behaviour(server, echo, b"first"))})
    way = next(way for way in WAYS[ends.driver] if way.arity == client)
    return await ends.invoke(way, getattr(ends.connect(served.target), client)(path()), timeout=PATIENCE_S)


@each((THREADS,))
async def sends_nothing_to_a_unary_handler(ends: OverThreads) -> Record:
    served = await ends.serve({"Method": method_handler("unary_unary", ends.behaviour("unary_unary", echo))})
    return await ends.attempt(ends.connect(served.target).stream_unary(path()), iter(()), timeout=PATIENCE_S)
