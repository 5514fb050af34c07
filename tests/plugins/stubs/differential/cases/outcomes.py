"""How calls end: success, failure, cancellation and expiry, in every arity and every style of call."""

from __future__ import annotations

import threading
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import Ends, method_handler, path
from ..invoking import FREE_WAYS, WAYS, Way, answering, argument, ended, invoke
from ..records import EXPIRIES_S, PATIENCE_S, Record, attempt, happened, taken
from ..registry import case, each


@each(way=WAYS)
def succeeds(ends: Ends, way: Way) -> Record:
    arity, style = way
    method = ends.method(arity, answering(arity, lambda request, _: request))
    return invoke(style, method, argument(arity))


@each(way=WAYS)
def succeeds_with_a_deadline(ends: Ends, way: Way) -> Record:
    arity, style = way
    method = ends.method(arity, answering(arity, lambda request, context: str(context.time_remaining() > 5).encode()))
    return invoke(style, method, argument(arity), timeout=PATIENCE_S)


@each(way=WAYS)
def is_aborted(ends: Ends, way: Way) -> Record:
    arity, style = way

    def abort(_: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")

    return invoke(style, ends.method(arity, answering(arity, abort)), argument(arity))


@each(way=WAYS)
def raises(ends: Ends, way: Way) -> Record:
    arity, style = way

    def fail(_: bytes, context: Any) -> None:
        raise RuntimeError("boom")

    return invoke(style, ends.method(arity, answering(arity, fail)), argument(arity))


@each(way=WAYS)
def answers_nothing(ends: Ends, way: Way) -> Record:
    arity, style = way
    return invoke(style, ends.method(arity, answering(arity, lambda request, context: None)), argument(arity))


@each(way=WAYS)
def sets_a_code(ends: Ends, way: Way) -> Record:
    arity, style = way

    def refuse(_: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.OUT_OF_RANGE)
        context.set_details("too far")
        return b"and yet a response"

    return invoke(style, ends.method(arity, answering(arity, refuse)), argument(arity))


@each(way=WAYS)
def shows_metadata(ends: Ends, way: Way) -> Record:
    arity, style = way

    def behaviour(request: Any, context: Any) -> Any:
        context.send_initial_metadata((("said", "first"), ("raw-bin", b"\x00\xff")))
        context.set_trailing_metadata((("said", "last"), ("said", "and more")))
        return iter((b"item",)) if arity.endswith("stream") else b"item"

    return invoke(style, ends.method(arity, behaviour), argument(arity))


@each(way=WAYS)
def expires(ends: Ends, way: Way) -> Record:
    arity, style = way
    gate = ends.gate()
    seen: Record = {}
    for timeout in EXPIRIES_S:
        ended_there, in_time = threading.Event(), threading.Event()

        def wait(
            request: bytes, context: Any, told: Any = ended_there, early: Any = in_time, s: float = timeout
        ) -> bytes:
            if context.add_callback(told.set) and context.time_remaining() > s / 2:
                early.set()
            gate.wait(PATIENCE_S)
            return request

        seen = invoke(style, ends.method(arity, answering(arity, wait)), argument(arity), timeout=timeout)
        if in_time.is_set():
            return {**seen, "handler told": happened(ended_there)}
    return {**seen, "handler": "came late"}


@each(way=WAYS)
def has_expired_before_it_begins(ends: Ends, way: Way) -> Record:
    arity, style = way
    method = ends.method(arity, answering(arity, lambda request, _: request))
    return invoke(style, method, argument(arity), timeout=-1)


@each(way=FREE_WAYS)
def is_cancelled(ends: Ends, way: Way) -> Record:
    arity, style = way
    gate, begun, ended_there = ends.gate(), threading.Event(), threading.Event()

    def wait(request: bytes, context: Any) -> bytes:
        context.add_callback(ended_there.set)
        begun.set()
        gate.wait(PATIENCE_S)
        return request

    method = ends.method(arity, answering(arity, wait))
    call = (method.future if style == "future" else method)(argument(arity))
    seen: Record = {"begun": happened(begun)}
    if style == "iterator":
        seen["before"] = taken(call, 1)
    seen["cancelling"] = call.cancel()
    seen["result"] = attempt(call.result) if style == "future" else taken(call)
    return {**seen, **ended(call), "handler told": happened(ended_there)}


@each(way=WAYS)
def is_not_implemented(ends: Ends, way: Way) -> Record:
    arity, style = way
    served = ends.serve({"Other": method_handler(arity, answering(arity, lambda request, _: request))})
    channel = ends.connect(served.target)
    return invoke(style, getattr(channel, arity)(path()), argument(arity))


@each(way=WAYS)
def finds_no_server(ends: Ends, way: Way) -> Record:
    arity, style = way
    channel = ends.connect(ends.address())
    return invoke(style, getattr(channel, arity)(path()), argument(arity), timeout=PATIENCE_S)


@each(way=WAYS)
def finds_no_server_and_waits(ends: Ends, way: Way) -> Record:
    arity, style = way
    channel = ends.connect(ends.address())
    return invoke(style, getattr(channel, arity)(path()), argument(arity), timeout=0.2, wait_for_ready=True)


# Not with streams of requests: gRPC's server then answers twice, and now and then never ends.
@each(way=[way for way in WAYS if way.arity.startswith("unary")])
def cannot_read_the_request(ends: Ends, way: Way) -> Record:
    arity, style = way

    def refuse(_: bytes) -> Any:
        raise ValueError("no message of ours")

    behaviour = answering(arity, lambda request, _: request)
    served = ends.serve({"Method": method_handler(arity, behaviour, request_deserializer=refuse)})
    return invoke(style, getattr(ends.connect(served.target), arity)(path()), argument(arity))


@each(way=WAYS)
def cannot_write_the_response(ends: Ends, way: Way) -> Record:
    arity, style = way

    def refuse(_: Any) -> bytes:
        raise ValueError("no message of ours")

    behaviour = answering(arity, lambda request, _: request)
    served = ends.serve({"Method": method_handler(arity, behaviour, response_serializer=refuse)})
    return invoke(style, getattr(ends.connect(served.target), arity)(path()), argument(arity))


@each(way=WAYS)
def cannot_write_the_request(ends: Ends, way: Way) -> Record:
    arity, style = way

    def refuse(_: Any) -> bytes:
        raise ValueError("no message of theirs")

    served = ends.serve({"Method": method_handler(arity, answering(arity, lambda request, _: request))})
    method = getattr(ends.connect(served.target), arity)(path(), request_serializer=refuse)
    return attempt(lambda: invoke(style, method, argument(arity)))


@each(way=WAYS)
def cannot_read_the_response(ends: Ends, way: Way) -> Record:
    arity, style = way

    def refuse(_: bytes) -> Any:
        raise ValueError("no message of theirs")

    served = ends.serve({"Method": method_handler(arity, answering(arity, lambda request, _: request))})
    method = getattr(ends.connect(served.target), arity)(path(), response_deserializer=refuse)
    return invoke(style, method, argument(arity))


@each(arities=("stream_unary to unary_unary", "unary_unary to stream_unary", "unary_stream to unary_unary"))
def meets_a_handler_of_another_arity(ends: Ends, arities: str) -> Record:
    client, server = arities.split(" to ")
    served = ends.serve({"Method": method_handler(server, answering(server, lambda request, _: request))})
    multicallable = getattr(ends.connect(served.target), client)(path())
    style = "iterator" if client.endswith("stream") else "blocking"
    return invoke(style, multicallable, argument(client), timeout=PATIENCE_S)


@case
def sends_nothing_to_a_unary_handler(ends: Ends) -> Record:
    served = ends.serve({"Method": method_handler("unary_unary", lambda request, context: request)})
    return attempt(ends.connect(served.target).stream_unary(path()), iter(()), timeout=PATIENCE_S)
