"""Interceptors on the client: `grpc.intercept_channel` over either channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import ARITIES, Ends, method_handler, path
from ..invoking import WAYS, Way, answering, argument, invoke
from ..records import PATIENCE_S, Diary, Record, attempt, classes, plain, state, taken
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


class Interceptor(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """All four kinds at once: what `around(continuation, details, request)` does."""

    def __init__(self, around: Callable[[Callable[..., Any], Any, Any], Any]) -> None:
        self._around = around

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Begin a call."""
        return self._around(continuation, client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Begin a call."""
        return self._around(continuation, client_call_details, request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        """Begin a call."""
        return self._around(continuation, client_call_details, request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        """Begin a call."""
        return self._around(continuation, client_call_details, request_iterator)


def _noting(diary: Diary, name: str) -> Interceptor:
    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        diary.note((name, "before", str(details.method)))
        call = continuation(details, request)
        diary.note((name, "after", "Call" in classes(call), "Future" in classes(call)))
        return call

    return Interceptor(around)


def _intercepted(ends: Ends, arity: str, behaviour: Callable[..., Any], *interceptors: Any) -> Any:
    served = ends.serve({"Method": method_handler(arity, behaviour)})
    return getattr(grpc.intercept_channel(ends.connect(served.target), *interceptors), arity)(path())


@each(way=WAYS)
def are_called_in_order(ends: Ends, way: Way) -> Record:
    diary = Diary()
    behaviour = answering(way.arity, lambda request, _: request)
    method = _intercepted(ends, way.arity, behaviour, _noting(diary, "outer"), _noting(diary, "inner"))
    return {"call": attempt(lambda: invoke(way.style, method, argument(way.arity))), "diary": diary.after(4)}


@each(way=WAYS)
def may_add_metadata(ends: Ends, way: Way) -> Record:
    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(Details.of(details, metadata=(*(details.metadata or ()), ("added", "yes"))), request)

    def answer(request: bytes, context: Any) -> bytes:
        return repr([tuple(entry) for entry in context.invocation_metadata() if entry[0] != "user-agent"]).encode()

    method = _intercepted(ends, way.arity, answering(way.arity, answer), Interceptor(around))
    return invoke(way.style, method, argument(way.arity), metadata=(("own", "yes"),))


@each(way=WAYS)
def may_shorten_the_deadline(ends: Ends, way: Way) -> Record:
    gate = ends.gate()

    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(Details.of(details, timeout=0.5), request)

    def answer(request: bytes, context: Any) -> bytes:
        gate.wait(PATIENCE_S)
        return request

    method = _intercepted(ends, way.arity, answering(way.arity, answer), Interceptor(around))
    return attempt(lambda: invoke(way.style, method, argument(way.arity), timeout=PATIENCE_S))


@each(way=WAYS)
def may_fail(ends: Ends, way: Way) -> Record:
    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        raise RuntimeError("a defect of the interceptor")

    method = _intercepted(ends, way.arity, answering(way.arity, lambda request, _: request), Interceptor(around))
    return attempt(lambda: invoke(way.style, method, argument(way.arity)))


@each(way=WAYS)
def see_the_error_of_a_call(ends: Ends, way: Way) -> Record:
    diary = Diary()

    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        call = continuation(details, request)
        if not way.arity.endswith("stream"):
            diary.note(plain(call.exception()))
            diary.note(state(call))
        return call

    def abort(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.ABORTED, "so it goes")

    method = _intercepted(ends, way.arity, answering(way.arity, abort), Interceptor(around))
    seen = attempt(lambda: invoke(way.style, method, argument(way.arity)))
    return {"call": seen, "diary": diary.after(0)}


class _Cached:
    """As much of an ended call as an interceptor needs to answer one itself."""

    def result(self, timeout: float | None = None) -> bytes:
        """Return the response."""
        return b"cached"


@each(arity=("unary_unary", "stream_unary"))
def may_answer_themselves(ends: Ends, arity: str) -> Record:
    method = _intercepted(ends, arity, answering(arity, lambda request, _: request), Interceptor(lambda *_: _Cached()))
    return {
        "blocking": attempt(method, argument(arity)),
        "future": attempt(lambda: method.future(argument(arity)).result()),
        "with_call": attempt(lambda: method.with_call(argument(arity))[0]),
    }


@each(arity=("unary_stream", "stream_stream"))
def may_change_the_items(ends: Ends, arity: str) -> Record:
    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Iterator[bytes]:
        return (item.upper() for item in continuation(details, request))

    method = _intercepted(ends, arity, answering(arity, lambda request, _: request), Interceptor(around))
    return taken(method(argument(arity)))


@each(arity=ARITIES)
def may_change_the_request(ends: Ends, arity: str) -> Record:
    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        changed = (each.upper() for each in request) if arity.startswith("stream") else request.upper()
        return continuation(details, changed)

    method = _intercepted(ends, arity, answering(arity, lambda request, _: request), Interceptor(around))
    return invoke("iterator" if arity.endswith("stream") else "blocking", method, argument(arity))


@case
def may_try_again(ends: Ends) -> Record:
    tries = Diary()

    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        call = continuation(details, request)
        return call if call.exception() is None else continuation(details, request)

    def behaviour(request: bytes, context: Any) -> bytes:
        tries.note("try")
        if len(tries.after(0)) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
        return request

    method = _intercepted(ends, "unary_unary", behaviour, Interceptor(around))
    return {"call": attempt(method, b"request"), "tries": tries.after(2)}


@case
def see_what_the_caller_asked_for(ends: Ends) -> Record:
    diary = Diary()

    def around(continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        diary.note((str(details.method), details.timeout, details.metadata, details.wait_for_ready))
        return continuation(details, request)

    method = _intercepted(ends, "unary_unary", lambda request, context: request, Interceptor(around))
    method(b"request", timeout=7, metadata=(("key", "value"),), wait_for_ready=True)
    method(b"request")
    return {"diary": diary.after(2)}


@case
def must_be_interceptors(ends: Ends) -> Record:
    return attempt(grpc.intercept_channel, ends.connect(ends.address()), "no interceptor")


@case
def leave_the_channel_a_channel(ends: Ends) -> Record:
    served = ends.serve({"Method": method_handler("unary_unary", lambda request, context: request)})
    diary = Diary()
    with grpc.intercept_channel(ends.connect(served.target), _noting(diary, "only")) as channel:
        ready = grpc.channel_ready_future(channel)
        seen = {"ready": attempt(ready.result, timeout=PATIENCE_S), "channel": isinstance(channel, grpc.Channel)}
        return {**seen, "response": attempt(channel.unary_unary(path()), b"request")}
