"""How a server finds the handler of a call, generic, registered or neither; and methods that do not block.

Those are marked `experimental_non_blocking`: they return, and send their responses by a callback.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from ..both import BOTH, WAYS, Driver, echo
from ..ends import ARITIES, SERVICE, Ends, generic_handler, method_handler, path
from ..records import PATIENCE_S, Diary, Record, argument, attempt, entries, happened, received, taken
from ..registry import case, each
from .server_interceptors import Interceptor

ECHO = {"Method": method_handler("unary_unary", lambda request, context: request)}


@case
def handlers_may_come_after_the_start(ends: Ends) -> Record:
    server = ends.server()
    method = ends.connect(ends.begin_at(server)).unary_unary(path())
    seen = {"before": attempt(method, b"request")}
    server.add_generic_rpc_handlers((generic_handler(ECHO),))
    return {**seen, "after": attempt(method, b"request")}


class _Generic(grpc.GenericRpcHandler):
    """A handler that decides by the path itself."""

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def service(self, handler_call_details: Any) -> Any:
        """Serve whatever ends in Echo."""
        self._diary.note((handler_call_details.method, entries(handler_call_details.invocation_metadata)))
        if handler_call_details.method.endswith("Fail"):
            raise RuntimeError("a defect of the handler's search")
        return ECHO["Method"] if handler_call_details.method.endswith("Echo") else None


@each(name=("Echo", "Fail", "Neither"))
def a_generic_handler_decides_by_the_path(ends: Ends, name: str) -> Record:
    diary = Diary()
    address = ends.begin_at(ends.server(_Generic(diary)))
    call = attempt(ends.connect(address).unary_unary(path(name)), b"request", metadata=(("key", "value"),))
    return {"call": call, "asked": diary.after(1)}


@each(handlers=("text", "a number", "not a sequence"))
def handlers_must_be_handlers(ends: Ends, handlers: str) -> Record:
    value: Any = {"text": ("no handler",), "a number": (5,), "not a sequence": 5}[handlers]
    seen = attempt(ends.server().add_generic_rpc_handlers, value)
    return {"classes": seen.get("raised", {}).get("classes")}


if hasattr(grpc.Server, "add_registered_method_handlers"):

    @each(BOTH, arity=ARITIES)
    async def registered_methods_are_served(ends: Driver, arity: str) -> Record:
        """As generated code does it: both registrations on the server, `_registered_method` on the client."""
        handler = method_handler(arity, ends.behaviour(arity, echo))
        server, address = ends.server(), ends.address()
        server.add_generic_rpc_handlers((generic_handler({"Method": handler}),))
        server.add_registered_method_handlers(SERVICE, {"Method": handler})
        server.add_insecure_port(address)
        await ends.begin(server)
        channel = ends.connect(address)
        by_name = getattr(channel, arity)(path(), None, None, _registered_method=True)
        by_place = getattr(channel, arity)(path(), None, None, True)
        way = next(way for way in WAYS[ends.driver] if way.arity == arity)
        return {"by name": await ends.invoke(way, by_name), "by place": await ends.invoke(way, by_place)}

    @each(registered=(True, False))
    def an_interceptor_refuses_a_stream_without_requests(ends: Ends, registered: bool) -> Record:
        """By one handler for methods of all arities, as interceptors that look for a token do."""
        refusal = grpc.unary_unary_rpc_method_handler(lambda request, context: b"")
        server = ends.server(generic_handler(ECHO), interceptors=(Interceptor(lambda continuation, details: refusal),))
        if registered:
            server.add_registered_method_handlers(SERVICE, ECHO)
        return attempt(ends.connect(ends.begin_at(server)).stream_unary(path()), iter(()))

    @case
    def methods_are_registered_after_the_start(ends: Ends) -> Record:
        server = ends.server()
        channel = ends.connect(ends.begin_at(server))
        server.add_registered_method_handlers(SERVICE, ECHO)
        return attempt(channel.unary_unary(path()), b"request")

    @case
    def a_registered_method_is_served_without_a_generic_handler(ends: Ends) -> Record:
        server = ends.server()
        server.add_registered_method_handlers(SERVICE, ECHO)
        channel = ends.connect(ends.begin_at(server))
        return {
            "registered": attempt(channel.unary_unary(path(), None, None, True), b"request"),
            "by path": attempt(channel.unary_unary(path()), b"request"),
        }


@case
def a_behaviour_may_bring_its_own_pool(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    with ThreadPoolExecutor(1, thread_name_prefix="its own") as pool:
        vars(behaviour)["experimental_thread_pool"] = pool
        return attempt(ends.unary_unary(behaviour), b"request")


#: A method's callback: it takes a response, or None for the end.
Respond = Callable[[Any], None]
STREAMS = ("unary_stream", "stream_stream")


def calling_back(behaviour: Callable[[Any, Any, Respond], None]) -> Any:
    """Mark a method as one that does not block."""
    vars(behaviour)["experimental_non_blocking"] = True
    return behaviour


def _method(ends: Ends, behaviour: Any, arity: str = "unary_stream", **arguments: Any) -> Any:
    return ends.method(arity, calling_back(behaviour), **arguments)


@each(arity=STREAMS, count=(0, 1, 100))
def sends_from_the_thread_that_was_called(ends: Ends, arity: str, count: int) -> Record:
    def behaviour(request: Any, context: Any, respond: Respond) -> None:
        text = received(arity, request)
        for number in range(count):
            respond(text + str(number).encode())
        respond(None)

    return taken(_method(ends, behaviour, arity)(argument(arity)))


@each(arity=STREAMS)
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


@each(before=(0, 2), how=("raises", "aborts"))
def fails(ends: Ends, before: int, how: str) -> Record:
    def behaviour(request: bytes, context: Any, respond: Respond) -> None:
        for _ in range(before):
            respond(b"item")
        if how == "aborts":
            context.abort(grpc.StatusCode.DATA_LOSS, "it is lost")
        raise RuntimeError("boom")

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
