"""Metadata: what may be sent, in which order it comes, and where it is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import Ends
from ..metadata_samples import DANGEROUS, INVALID, ODD, SENT
from ..records import PATIENCE_S, Record, attempt, classes, entries, happened, plain, taken
from ..registry import case, each


def _echo(request: bytes, context: Any) -> bytes:
    """Send all metadata back in both places, but what every implementation adds for itself."""
    back = tuple(entry for entry in context.invocation_metadata() if entry[0] != "user-agent")
    context.send_initial_metadata(back)
    context.set_trailing_metadata(back)
    return request


@each(sent=SENT)
def goes_there_and_back(ends: Ends, sent: str) -> Record:
    return attempt(ends.unary_unary(_echo).with_call, b"request", metadata=SENT[sent])


@each(sent=SENT)
def goes_there_and_back_with_a_stream(ends: Ends, sent: str) -> Record:
    def echo(request: bytes, context: Any) -> Iterator[bytes]:
        yield _echo(request, context)

    def stream() -> Record:
        call = method(b"request", metadata=SENT[sent])
        first = entries(call.initial_metadata())
        return {"first": first, "taken": taken(call), "last": entries(call.trailing_metadata())}

    method = ends.unary_stream(echo)
    return attempt(stream)


def _sent_by_the_client(ends: Ends, style: str, metadata: Any) -> Record:
    """Return what becomes of a call with this metadata, and what a handler sees of it."""
    seen: list[Any] = []

    def behaviour(request: bytes, context: Any) -> Any:
        seen.append(entries(context.invocation_metadata()))
        return iter((b"response",)) if style == "iterator" else b"response"

    method = ends.method("unary_stream" if style == "iterator" else "unary_unary", behaviour)
    if style == "blocking":
        outcome = attempt(method, b"request", metadata=metadata, timeout=PATIENCE_S)
    elif style == "future":
        outcome = attempt(lambda: method.future(b"request", metadata=metadata, timeout=PATIENCE_S).result())
    else:
        outcome = attempt(lambda: taken(method(b"request", metadata=metadata, timeout=PATIENCE_S)))
    return {"outcome": outcome, "handler saw": seen}


@each(sent=INVALID, style=("blocking", "future", "iterator"))
def is_invalid_on_the_client(ends: Ends, sent: str, style: str) -> Record:
    return _sent_by_the_client(ends, style, INVALID[sent])


@each(sent=ODD | DANGEROUS, style=("blocking", "future", "iterator"))
def is_odd_on_the_client(ends: Ends, sent: str, style: str) -> Record:
    return _sent_by_the_client(ends, style, (ODD | DANGEROUS)[sent])


def _sent_by_the_server(ends: Ends, metadata: Any) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata(metadata)
        return b"response"

    return attempt(ends.unary_unary(behaviour).with_call, b"request", timeout=2)


@each(sent=INVALID)
def is_invalid_on_the_server(ends: Ends, sent: str) -> Record:
    return _sent_by_the_server(ends, INVALID[sent])


@each(sent=ODD)
def is_odd_on_the_server(ends: Ends, sent: str) -> Record:
    return _sent_by_the_server(ends, ODD[sent])


@case
def is_sent_again(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("first", "1"),))
        again = attempt(context.send_initial_metadata, (("second", "2"),))
        context.set_trailing_metadata((("again", str(again)),))
        return b"response"

    return attempt(ends.unary_unary(behaviour).with_call, b"request")


@case
def is_sent_after_the_first_item(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> Iterator[bytes]:
        yield b"item"
        yield str(attempt(context.send_initial_metadata, (("late", "1"),))).encode()

    return taken(ends.unary_stream(behaviour)(b"request"))


@case
def is_set_twice_as_trailing_metadata(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("first", "1"),))
        context.set_trailing_metadata((("second", "2"),))
        return b"response"

    return attempt(ends.unary_unary(behaviour).with_call, b"request")


# Not for unary_unary: there gRPC knows the initial metadata when it knows the response.
@each(arity=("unary_stream", "stream_unary", "stream_stream"))
def comes_before_the_response(ends: Ends, arity: str) -> Record:
    gate, begun = ends.gate(), threading.Event()

    def unary(request: Any, context: Any) -> bytes:
        context.send_initial_metadata((("early", "yes"),))
        begun.set()
        gate.wait(PATIENCE_S)
        return b"response"

    def stream(request: Any, context: Any) -> Iterator[bytes]:
        yield unary(request, context)

    method = ends.method(arity, stream if arity.endswith("stream") else unary)
    argument: Any = iter((b"request",)) if arity.startswith("stream") else b"request"
    call = method(argument) if arity.endswith("stream") else method.future(argument)
    seen: Record = {"begun": happened(begun), "early": entries(call.initial_metadata()), "done": call.done()}
    gate.set()
    seen["result"] = taken(call) if arity.endswith("stream") else attempt(call.result, timeout=PATIENCE_S)
    return {**seen, "trailing": entries(call.trailing_metadata()), "details": call.details()}


@case
def comes_with_the_first_item_where_none_was_sent(ends: Ends) -> Record:
    call = ends.unary_stream(lambda request, context: iter((b"1", b"2")))(b"request")
    first = next(call)
    return {"first": first, "initial": entries(call.initial_metadata()), "rest": taken(call)}


def _types(metadata: Any) -> Record:
    return {
        "container": type(metadata).__name__,
        "entries": sorted({type(entry).__name__ for entry in metadata}),
        "named": [(entry.key, entry.value) for entry in metadata if entry.key != "user-agent"],
        "tuples": [isinstance(entry, tuple) and classes(entry) for entry in metadata if entry.key != "user-agent"],
    }


@case
def has_entries_with_names(ends: Ends) -> Record:
    there: list[Record] = []

    def behaviour(request: bytes, context: Any) -> bytes:
        there.append(_types(context.invocation_metadata()))
        return _echo(request, context)

    sent = (("key", "value"), ("key-bin", b"\x01"))
    _, call = ends.unary_unary(behaviour).with_call(b"request", metadata=sent)
    return {"there": there, "initial": _types(call.initial_metadata()), "trailing": _types(call.trailing_metadata())}


@case
def names_the_client(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        agents = [value for key, value in context.invocation_metadata() if key == "user-agent"]
        return repr([agent.split("/")[0] for agent in agents]).encode()

    return attempt(ends.unary_unary(behaviour), b"request")


@each(placement=("first", "second"))
def names_the_program_too(ends: Ends, placement: str) -> Record:
    option = {"first": "grpc.primary_user_agent", "second": "grpc.secondary_user_agent"}[placement]

    def behaviour(request: bytes, context: Any) -> bytes:
        return dict(context.invocation_metadata())["user-agent"].encode()

    answer = ends.unary_unary(behaviour, channel_options=((option, "program/1.0"),))(b"request").decode()
    return {"first": answer.startswith("program/1.0 "), "last": answer.endswith(" program/1.0")}


@each(entries_=(1, 8), size=(1_000, 60_000))
def is_larger_than_allowed(ends: Ends, entries_: int, size: int) -> Record:
    metadata = tuple((f"key{number}", "x" * (size // entries_)) for number in range(entries_))
    seen = attempt(ends.unary_unary(lambda request, context: b"response"), b"request", metadata=metadata)
    return _without_sizes(seen)


@each(place=("initial", "trailing"), size=(1_000, 60_000))
def is_larger_than_allowed_from_the_server(ends: Ends, place: str, size: int) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        (context.send_initial_metadata if place == "initial" else context.set_trailing_metadata)((("key", "x" * size),))
        return b"response"

    return _without_sizes(attempt(ends.unary_unary(behaviour).with_call, b"request"))


@each(place=("initial", "trailing", "of an abort"))
def is_larger_than_allowed_with_a_stream(ends: Ends, place: str) -> Record:
    def behaviour(request: bytes, context: Any) -> Iterator[bytes]:
        large = (("key", "x" * 20_000),)
        (context.send_initial_metadata if place == "initial" else context.set_trailing_metadata)(large)
        if place == "of an abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "gone")
        yield b"item"

    call = ends.unary_stream(behaviour)(b"request", timeout=PATIENCE_S)
    return {"initial": entries(call.initial_metadata()), **_ended_without_sizes(taken(call))}


def _ended_without_sizes(seen: Record) -> Record:
    """Of a stream that ended: the items before metadata that break the connection come or not, as it happens."""
    del seen["items"]
    seen["ended"]["details"] = "metadata" in seen["ended"]["details"]
    return seen


def _without_sizes(seen: Record) -> Record:
    """The text counts HTTP/2's frames; that it says what was too large is what matters."""
    if "raised" in seen:
        seen["raised"]["details"] = "metadata" in seen["raised"]["details"]
    return seen


@each(size=(1_000, 20_000))
def has_a_limit_of_its_own(ends: Ends, size: int) -> Record:
    options = (("grpc.max_metadata_size", 40_000), ("grpc.absolute_max_metadata_size", 50_000))
    method = ends.unary_unary(lambda request, context: b"response", options=options)
    return _without_sizes(attempt(method, b"request", metadata=(("key", "x" * size),)))


@case
def is_aborted_with(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> None:
        context.set_trailing_metadata((("why-bin", b"\x08\x05"), ("why", "so")))
        context.abort(grpc.StatusCode.ABORTED, "details")

    return plain(attempt(ends.unary_unary(behaviour), b"request"))
