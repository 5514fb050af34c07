"""What a transport owes its streams: the cases of the model suite that gRPC's Java transports share.

Named there: openStreamPreventsTermination, shutdownNowKillsClientStream, basicStream, zeroMessageStream,
earlyServerClose_*, clientCancel, clientCancelFromWithinMessageRead, serverCancel, interactionsAfter...AreNoops,
newStream_*. Flow control is in `flow_control`, sizes of metadata in `metadata`, shutdowns in `servers` and `channels`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, attempt, entries, happened, state, status, taken
from ..registry import case, each


def _said(*requests: bytes, until: threading.Event | None = None) -> Iterator[bytes]:
    """Give these requests, and stay open until the event."""
    yield from requests
    if until is not None:
        until.wait(PATIENCE_S)


@case
def open_stream_prevents_termination(ends: Ends) -> Record:
    gate = ends.gate()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield from requests

    served = ends.serve({"Method": method_handler("stream_stream", behaviour)})
    call = ends.connect(served.target).stream_stream(path())(_said(b"one", until=gate))
    first = next(call)
    stopped = served.server.stop(PATIENCE_S)
    seen: Record = {"first": first, "stopped": stopped.is_set(), "active": call.is_active()}
    gate.set()
    return {**seen, "rest": taken(call), "then": happened(stopped)}


@case
def shutdown_now_kills_the_stream(ends: Ends) -> Record:
    gate, told = ends.gate(), threading.Event()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(told.set)
        yield from requests

    served = ends.serve({"Method": method_handler("stream_stream", behaviour)})
    call = ends.connect(served.target).stream_stream(path())(_said(b"one", until=gate))
    first = next(call)
    served.server.stop(None)
    attempt(next, call)
    return {"first": first, "code": call.code().name, "told": happened(told)}


@case
def basic_stream(ends: Ends) -> Record:
    """Headers, two messages and an end each way, with metadata in every place."""
    diary = Diary()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        diary.note(entries(context.invocation_metadata()))
        context.send_initial_metadata((("server", "first"), ("server", "second"), ("server-bin", b"\xff\x00")))
        for request in requests:
            diary.note(request)
            yield request.upper()
        diary.note("half closed")
        context.set_trailing_metadata((("last", "word"),))
        context.set_details("all of it")

    metadata = (("client", "first"), ("client", "second"), ("client-bin", b"\x00\xff"))
    call = ends.stream_stream(behaviour)(_said(b"one", b"two"), metadata=metadata)
    return {"initial": entries(call.initial_metadata()), "taken": taken(call), **status(call), "there": diary.after(4)}


@case
def zero_message_stream(ends: Ends) -> Record:
    call = ends.stream_stream(lambda requests, context: requests)(_said())
    return {"taken": taken(call), **status(call)}


@each(headers=(False, True), code=("OK", "ABORTED"))
def early_server_close(ends: Ends, headers: bool, code: str) -> Record:
    """The server ends while the client would still send."""
    gate = ends.gate()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        if headers:
            context.send_initial_metadata((("server", "was here"),))
        context.set_trailing_metadata((("last", "word"),))
        context.set_code(grpc.StatusCode[code])
        context.set_details("early")
        return iter(())

    call = ends.stream_stream(behaviour)(_said(b"one", until=gate))
    return {"taken": taken(call), **status(call), "cancel": call.cancel(), **state(call)}


@case
def client_cancel(ends: Ends) -> Record:
    gate, told = ends.gate(), threading.Event()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(told.set)
        yield from requests

    call = ends.stream_stream(behaviour)(_said(b"one", until=gate))
    first = next(call)
    return {"first": first, "cancel": call.cancel(), **status(call), **state(call), "told": happened(told)}


@case
def client_cancel_from_within_message_read(ends: Ends) -> Record:
    """The response's deserializer cancels the call that it reads for."""
    calls: list[Any] = []
    known = threading.Event()

    def deserialize(response: bytes) -> bytes:
        if response == b"1":
            known.wait(PATIENCE_S)
            calls[0].cancel()
        return response

    handler = method_handler("unary_stream", lambda request, context: (str(n).encode() for n in itertools.count()))
    channel = ends.connect(ends.serve({"Method": handler}).target)
    calls.append(channel.unary_stream(path(), response_deserializer=deserialize)(b"request"))
    known.set()
    ended = taken(calls[0])["ended"]
    return {"ended": ended, **status(calls[0])}


@case
def server_cancel(ends: Ends) -> Record:
    told = threading.Event()

    def behaviour(request: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(told.set)
        yield b"one"
        context.cancel()

    call = ends.unary_stream(behaviour)(b"request")
    return {"ended": taken(call)["ended"], "told": happened(told)}


@case
def interactions_after_the_end_are_noops(ends: Ends) -> Record:
    kept: list[Any] = []
    over = threading.Event()

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        kept.extend((context, requests))
        context.add_callback(over.set)
        yield from requests

    call = ends.stream_stream(behaviour)(_said(b"one"))
    seen: Record = {"taken": taken(call), "over": happened(over)}
    context, requests = kept
    return {
        **seen,
        "server": {
            "cancel": attempt(context.cancel),
            "request": attempt(next, requests),
            "trailing": attempt(context.set_trailing_metadata, (("late", "1"),)),
            "active": context.is_active(),
        },
        "client": {"cancel": call.cancel(), "next": attempt(next, call), "code": call.code().name},
    }


@case
def interactions_after_a_cancel_are_noops(ends: Ends) -> Record:
    gate = ends.gate()
    call = ends.stream_stream(lambda requests, context: requests)(_said(b"one", until=gate))
    first = next(call)
    return {
        "first": first,
        "cancel": call.cancel(),
        "again": call.cancel(),
        "next": attempt(next, call),
        "code": call.code().name,
        "initial": entries(call.initial_metadata()),
        "trailing": entries(call.trailing_metadata()),
    }


@case
def half_close_is_seen_by_the_server(ends: Ends) -> Record:
    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield str(len(list(requests))).encode()
        yield b"and still talking"

    return taken(ends.stream_stream(behaviour)(_said(b"one", b"two")))


@case
def a_stream_is_new_while_another_is_open(ends: Ends) -> Record:
    gate = ends.gate()
    method = ends.stream_stream(lambda requests, context: requests)
    first = method(_said(b"one", until=gate))
    seen = {"first": next(first), "second": taken(method(_said(b"two")))}
    gate.set()
    return {**seen, "rest": taken(first)}


@case
def the_three_hundredth_call_is_as_the_first(ends: Ends) -> Record:
    method = ends.unary_unary(lambda request, context: request)
    return {"answers": {method(b"request") for _ in range(300)} == {b"request"}}
