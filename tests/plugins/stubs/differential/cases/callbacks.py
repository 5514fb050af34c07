"""Methods that do not block (`experimental_non_blocking`): they return, and send their responses by a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, argument, attempt, entries, happened, received, taken
from ..registry import case, each

#: A method's callback: it takes a response, or None for the end.
Respond = Callable[[Any], None]
ARITIES = ("unary_stream", "stream_stream")


def calling_back(behaviour: Callable[[Any, Any, Respond], None]) -> Any:
    """Mark a method as one that does not block."""
    vars(behaviour)["experimental_non_blocking"] = True
    return behaviour


def _method(ends: Ends, behaviour: Any, arity: str = "unary_stream", **arguments: Any) -> Any:
    return ends.method(arity, calling_back(behaviour), **arguments)


@each(arity=ARITIES, count=(0, 1, 100))
def sends_from_the_thread_that_was_called(ends: Ends, arity: str, count: int) -> Record:
    def behaviour(request: Any, context: Any, respond: Respond) -> None:
        text = received(arity, request)
        for number in range(count):
            respond(text + str(number).encode())
        respond(None)

    return taken(_method(ends, behaviour, arity)(argument(arity)))


@each(arity=ARITIES)
def sends_from_a_thread_of_its_own_after_it_has_returned(ends: Ends, arity: str) -> Record:
    returned = ends.gate()

    def send(text: bytes, respond: Respond) -> None:
        returned.wait(PATIENCE_S)
        for number in range(20):
            respond(text + str(number).encode())
        respond(None)

    def behaviour(request: Any, context: Any, respond: Respond) -> None:
        threading.Thread(target=send, args=(received(arity, request), respond), daemon=True).start()
        returned.set()

    return taken(_method(ends, behaviour, arity)(argument(arity)))


@case
def leaves_its_thread_to_other_calls(ends: Ends) -> Record:
    callbacks: list[Respond] = []

    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        callbacks.append(respond)
        respond(request)

    handlers = {
        "Method": method_handler("unary_stream", calling_back(behaviour)),
        "Echo": method_handler("unary_unary", lambda request, context: request),
    }
    channel = ends.connect(ends.serve(handlers, workers=1).target)
    open_calls = [channel.unary_stream(path())(b"open") for _ in range(3)]
    seen: Record = {"first": [next(call) for call in open_calls]}
    seen["beside"] = attempt(channel.unary_unary(path("Echo")), b"request", timeout=PATIENCE_S)
    for respond in callbacks:
        respond(None)
    return {**seen, "rest": [taken(call) for call in open_calls]}


@case
def runs_in_the_pool_that_it_brings(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        respond(threading.current_thread().name.encode())
        respond(None)

    with ThreadPoolExecutor(1, thread_name_prefix="its own") as pool:
        vars(behaviour)["experimental_thread_pool"] = pool
        return taken(_method(ends, behaviour)(b"request"))


@each(told=("nothing", "a code", "details", "both"))
def ends_with_what_it_has_set(ends: Ends, told: str) -> Record:
    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        context.send_initial_metadata((("early", "1"),))
        respond(b"item")
        if told in ("a code", "both"):
            context.set_code(grpc.StatusCode.ABORTED)
        if told in ("details", "both"):
            context.set_details("enough")
        context.set_trailing_metadata((("late", "2"),))
        respond(None)

    call = _method(ends, behaviour)(b"request")
    return {"items": taken(call), "initial": entries(call.initial_metadata())}


@each(before=(0, 2))
def raises(ends: Ends, before: int) -> Record:
    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        for _ in range(before):
            respond(b"item")
        raise RuntimeError("boom")

    return taken(_method(ends, behaviour)(b"request"))


@case
def aborts(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        respond(b"item")
        context.abort(grpc.StatusCode.DATA_LOSS, "it is lost")

    return taken(_method(ends, behaviour)(b"request"))


@case
def sends_what_cannot_be_serialized(ends: Ends) -> Record:
    def serialized(response: bytes) -> bytes:
        if response == b"bad":
            raise ValueError("it cannot be written")
        return response

    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        for response in (b"item", b"bad", b"too late", None):
            respond(response)

    handler = grpc.unary_stream_rpc_method_handler(calling_back(behaviour), response_serializer=serialized)
    served = ends.serve({"Method": handler})
    return taken(ends.connect(served.target).unary_stream(path())(b"request"))


@case
def calls_back_after_a_cancel(ends: Ends) -> Record:
    diary, cancelled, done = Diary(), ends.gate(), ends.gate()

    def send(respond: Respond) -> None:
        cancelled.wait(PATIENCE_S)
        for response in (b"item", None, b"item"):
            diary.note(attempt(respond, response))
        done.set()

    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        context.add_callback(cancelled.set)
        respond(b"first")
        threading.Thread(target=send, args=(respond,), daemon=True).start()

    call = _method(ends, behaviour)(b"request")
    seen: Record = {"first": next(call)}
    call.cancel()
    return {**seen, "done": happened(done), "callback": diary.after(3)}


@each(arity=("unary_unary", "stream_unary"))
def is_no_matter_where_there_is_one_response(ends: Ends, arity: str) -> Record:
    def behaviour(request: Any, context: Any, *more: Any) -> bytes:
        return received(arity, request) + str(len(more)).encode()

    return attempt(_method(ends, behaviour, arity), argument(arity))
