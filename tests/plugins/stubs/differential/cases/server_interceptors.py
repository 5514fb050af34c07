"""Interceptors on the server."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import ARITIES, Ends, method_handler, path
from ..invoking import answering, argument, invoke
from ..records import Diary, Record, attempt, entries
from ..registry import case, each


class Interceptor(grpc.ServerInterceptor):
    """What `around(continuation, details)` does."""

    def __init__(self, around: Callable[[Callable[..., Any], Any], Any]) -> None:
        self._around = around

    def intercept_service(self, continuation: Callable[..., Any], handler_call_details: Any) -> Any:
        """Return the handler of a call, or None where it has none."""
        return self._around(continuation, handler_call_details)


def _noting(diary: Diary, name: str) -> Interceptor:
    def around(continuation: Callable[..., Any], details: Any) -> Any:
        diary.note((name, "before", details.method))
        handler = continuation(details)
        diary.note((name, "after", handler is not None))
        return handler

    return Interceptor(around)


def _call(ends: Ends, arity: str, *interceptors: Any, answer: Any = None) -> Record:
    behaviour = answering(arity, answer or (lambda request, context: request))
    method = ends.method(arity, behaviour, interceptors=interceptors)
    return invoke("iterator" if arity.endswith("stream") else "blocking", method, argument(arity))


@each(arity=ARITIES)
def are_called_in_order(ends: Ends, arity: str) -> Record:
    diary = Diary()
    seen = _call(ends, arity, _noting(diary, "outer"), _noting(diary, "inner"))
    return {"call": seen, "diary": diary.after(4)}


@each(arity=ARITIES)
def may_refuse(ends: Ends, arity: str) -> Record:
    def deny(request: Any, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    return _call(ends, arity, Interceptor(lambda continuation, details: method_handler(arity, deny)))


@each(arity=ARITIES)
def may_have_no_handler(ends: Ends, arity: str) -> Record:
    return _call(ends, arity, Interceptor(lambda continuation, details: None))


@each(arity=ARITIES)
def may_fail(ends: Ends, arity: str) -> Record:
    def around(continuation: Callable[..., Any], details: Any) -> Any:
        raise RuntimeError("a defect of the interceptor")

    return _call(ends, arity, Interceptor(around))


@case
def see_the_metadata(ends: Ends) -> Record:
    diary = Diary()

    def around(continuation: Callable[..., Any], details: Any) -> Any:
        diary.note(details.method)
        diary.note(entries(details.invocation_metadata))
        return continuation(details)

    method = ends.unary_unary(lambda request, context: request, interceptors=(Interceptor(around),))
    seen = attempt(method, b"request", metadata=(("key", "value"), ("key-bin", b"\x00")))
    return {"call": seen, "diary": diary.after(2)}


@case
def are_asked_for_unknown_methods_too(ends: Ends) -> Record:
    diary = Diary()
    served = ends.serve({}, interceptors=(_noting(diary, "only"),))
    seen = attempt(ends.connect(served.target).unary_unary(path()), b"request")
    return {"call": seen, "diary": diary.after(2)}


@case
def may_wrap_the_handler(ends: Ends) -> Record:
    def around(continuation: Callable[..., Any], details: Any) -> Any:
        inner = continuation(details).unary_unary
        return method_handler("unary_unary", lambda request, context: inner(request, context).upper())

    return _call(ends, "unary_unary", Interceptor(around))


@case
def may_send_a_call_elsewhere(ends: Ends) -> Record:
    class Elsewhere(grpc.HandlerCallDetails):
        method = path("Other")
        invocation_metadata = ()

    served = ends.serve(
        {
            "Method": method_handler("unary_unary", lambda request, context: b"here"),
            "Other": method_handler("unary_unary", lambda request, context: b"there"),
        },
        interceptors=(Interceptor(lambda continuation, details: continuation(Elsewhere())),),
    )
    return attempt(ends.connect(served.target).unary_unary(path()), b"request")


@case
def must_be_interceptors(ends: Ends) -> Record:
    return attempt(lambda: ends.server(interceptors=("no interceptor",)) and None)


@case
def share_their_context_variables_with_the_handler(ends: Ends) -> Record:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")

    def around(continuation: Callable[..., Any], details: Any) -> Any:
        variable.set("from the interceptor")
        return continuation(details)

    return _call(ends, "unary_unary", Interceptor(around), answer=lambda request, context: variable.get().encode())
