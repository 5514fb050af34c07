"""What a handler learns from its context, before and after its call has ended."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import ARITIES, Ends, method_handler, path
from ..invoking import FREE_WAYS, Way, answering, argument, invoke
from ..records import EXPIRIES_S, PATIENCE_S, Diary, Record, attempt, classes, happened, taken
from ..registry import case, each


@case
def is_the_peer(ends: Ends) -> Record:
    diary = Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        diary.note(type(context.peer()).__name__)
        diary.note(context.peer_identities())
        diary.note(context.peer_identity_key())
        diary.note(sorted(context.auth_context()))
        diary.note(context.auth_context().get("transport_security_type"))
        return request

    return {"response": attempt(ends.unary_unary(behaviour), b"request"), "context": diary.after(5)}


@each(timeout=(None, 5.0))
def is_the_time_remaining(ends: Ends, timeout: float | None) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        left = context.time_remaining()
        return f"{type(left).__name__} {left < 6} {left > 1_000_000}".encode()

    return attempt(ends.unary_unary(behaviour), b"request", timeout=timeout)


@each(arity=ARITIES)
def is_active_until_the_end(ends: Ends, arity: str) -> Record:
    diary = Diary()

    def unary(request: Any, context: Any) -> bytes:
        if arity.startswith("stream"):
            list(request)
        added = context.add_callback(lambda: diary.note(("over", context.is_active())))
        diary.note(("running", context.is_active(), added))
        return b"response"

    def stream(request: Any, context: Any) -> Iterator[bytes]:
        yield unary(request, context)

    style = "iterator" if arity.endswith("stream") else "blocking"
    method = ends.method(arity, stream if style == "iterator" else unary)
    seen = invoke(style, method, argument(arity))
    return {"call": seen, "diary": diary.after(2)}


@each(way=FREE_WAYS)
def is_inactive_after_a_cancel(ends: Ends, way: Way) -> Record:
    diary, begun, told = Diary(), threading.Event(), threading.Event()

    def wait(request: bytes, context: Any) -> bytes:
        context.add_callback(told.set)
        begun.set()
        diary.note(happened(told))
        diary.note(context.is_active())
        diary.note(context.add_callback(lambda: None))
        diary.note(attempt(context.send_initial_metadata, ()))
        diary.note(context.time_remaining() > 0)
        diary.note(attempt(context.set_trailing_metadata, (("key", "value"),)))
        diary.note(attempt(context.cancel))
        return request

    method = ends.method(way.arity, answering(way.arity, wait) if way.style == "future" else _waiting(wait))
    call = (method if way.style == "iterator" else method.future)(argument(way.arity))
    seen = {"begun": happened(begun), "cancel": call.cancel()}
    return {**seen, "handler": diary.after(7)}


def _waiting(wait: Any) -> Any:
    def stream(request: Any, context: Any) -> Iterator[bytes]:
        wait(b"", context)
        yield b"too late"

    return stream


@each(way=FREE_WAYS)
def is_inactive_after_the_deadline(ends: Ends, way: Way) -> Record:
    seen: Any = None
    diary = Diary()
    for timeout in EXPIRIES_S:
        begun = threading.Event()

        def wait(request: bytes, context: Any, begun: Any = begun) -> bytes:
            begun.set()
            told = threading.Event()
            if not context.add_callback(told.set):
                told.set()  # on a busy machine the deadline may come before the handler
            diary.note(happened(told))
            diary.note(context.is_active())
            diary.note(context.time_remaining() < 1)
            return request

        method = ends.method(way.arity, _waiting(wait) if way.style == "iterator" else answering(way.arity, wait))
        call = (method if way.style == "iterator" else method.future)(argument(way.arity), timeout=timeout)
        seen = taken(call) if way.style == "iterator" else attempt(call.result)
        if begun.is_set():
            break
    return {"seen": seen, "handler": diary.after(3)}


@case
def tells_callbacks_once_and_in_order(ends: Ends) -> Record:
    diary = Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        for name in ("first", "second", "third"):
            context.add_callback(lambda name=name: diary.note(name))
        diary.note("handler")
        return request

    return {"response": attempt(ends.unary_unary(behaviour), b"request"), "diary": diary.after(4)}


@case
def tells_the_rest_when_a_callback_fails(ends: Ends) -> Record:
    diary = Diary()

    def fail() -> None:
        diary.note("fails")
        raise RuntimeError("a defect of the callback")

    def behaviour(request: bytes, context: Any) -> bytes:
        context.add_callback(fail)
        context.add_callback(lambda: diary.note("is told"))
        return request

    method = ends.unary_unary(behaviour)
    seen = {"response": attempt(method, b"request"), "diary": diary.after(2)}
    return {**seen, "next": attempt(method, b"request")}


@case
def tells_callbacks_when_the_handler_fails(ends: Ends) -> Record:
    diary = Diary()

    def behaviour(request: bytes, context: Any) -> None:
        context.add_callback(lambda: diary.note("told"))
        raise RuntimeError("boom")

    return {"response": attempt(ends.unary_unary(behaviour), b"request"), "diary": diary.after(1)}


@case
def refuses_callbacks_after_the_end(ends: Ends) -> Record:
    kept: list[Any] = []
    over = threading.Event()

    def behaviour(request: bytes, context: Any) -> bytes:
        kept.append(context)
        context.add_callback(over.set)
        return request

    attempt(ends.unary_unary(behaviour), b"request")
    seen: Record = {"over": happened(over)}
    context = kept[0]
    return {
        **seen,
        "active": context.is_active(),
        "add_callback": context.add_callback(lambda: None),
        "set_code": attempt(context.set_code, None),
        "trailing": attempt(context.set_trailing_metadata, (("key", "value"),)),
        "initial": attempt(context.send_initial_metadata, (("key", "value"),)),
    }


@case
def is_a_servicer_context(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        return f"{isinstance(context, grpc.ServicerContext)} {classes(context)}".encode()

    return attempt(ends.unary_unary(behaviour), b"request")


@case
def runs_in_the_pool_that_was_given(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.split("-")[0].encode()

    return attempt(ends.unary_unary(behaviour), b"request")


@case
def starts_each_call_with_clean_context_variables(ends: Ends) -> Record:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    def behaviour(request: bytes, context: Any) -> bytes:
        before = variable.get()
        variable.set("used")
        return before.encode()

    method = ends.unary_unary(behaviour, workers=1)
    return {"calls": [attempt(method, b"request") for _ in range(3)]}


@case
def hands_its_deadline_on_to_calls_of_its_own(ends: Ends) -> Record:
    def inner(request: bytes, context: Any) -> bytes:
        return str(context.time_remaining() < 60).encode()

    served = ends.serve({"Method": method_handler("unary_unary", inner)})
    onward = ends.connect(served.target).unary_unary(path())
    outer = ends.unary_unary(lambda request, context: onward(request))
    return attempt(outer, b"request", timeout=PATIENCE_S)
