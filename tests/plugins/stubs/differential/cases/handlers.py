"""How a server finds the handler of a call: generic handlers, registered ones, and neither."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..both import BOTH, WAYS, Driver, echo
from ..ends import ARITIES, SERVICE, Ends, generic_handler, method_handler, path
from ..records import Diary, Record, attempt, entries
from ..registry import case, each
from .server_interceptors import Interceptor

ECHO = {"Method": method_handler("unary_unary", lambda request, context: request)}


@case
def handlers_may_come_after_the_start(ends: Ends) -> Record:
    server, address = ends.server(), ends.address()
    server.add_insecure_port(address)
    server.start()
    method = ends.connect(address).unary_unary(path())
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
    diary, address = Diary(), ends.address()
    server = ends.server(_Generic(diary))
    server.add_insecure_port(address)
    server.start()
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
        target = ends.address()
        server.add_insecure_port(target)
        server.start()
        return attempt(ends.connect(target).stream_unary(path()), iter(()))

    @case
    def a_registered_method_is_served_without_a_generic_handler(ends: Ends) -> Record:
        server, address = ends.server(), ends.address()
        server.add_registered_method_handlers(SERVICE, ECHO)
        server.add_insecure_port(address)
        server.start()
        channel = ends.connect(address)
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
