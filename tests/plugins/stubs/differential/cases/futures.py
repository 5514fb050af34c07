"""What a call answers while it runs and after it has ended."""

import threading
from typing import Any

import grpc

from ..ends import Ends
from ..records import FREE_WAYS, PATIENCE_S, Diary, Record, Way, attempt, begun, classes, happened, one_response, state
from ..registry import case, each


class _Held:
    """A call whose handler waits until it is let go."""

    def __init__(self, ends: Ends, way: Way, **options: Any) -> None:
        self._gate, there = ends.gate(), threading.Event()

        def unary(request: Any, context: Any) -> bytes:
            there.set()
            self._gate.wait(PATIENCE_S)
            return b"response"

        self.call = begun(way.arity, ends.method(way.arity, one_response(way.arity, unary)), **options)
        self.begun = happened(there)

    def let_go(self) -> None:
        """Let the handler answer."""
        self._gate.set()


@each(way=FREE_WAYS, timeout=(PATIENCE_S, None))
def a_call_that_runs(ends: Ends, way: Way, timeout: float | None) -> Record:
    held = _Held(ends, way, timeout=timeout)
    call = held.call
    left = call.time_remaining()
    seen: Record = {
        "begun": held.begun,
        "classes": classes(call),
        **state(call),
        "active": call.is_active(),
        "time_remaining": left if left is None else 0 < left <= PATIENCE_S,
        **{
            f"{ask} {timeout}": attempt(getattr(call, ask), timeout=timeout)
            for ask in ("result", "exception", "traceback")
            for timeout in (0.05, 0, -1)
        },
    }
    held.let_go()
    return seen


@each(way=FREE_WAYS, ending=("success", "failure", "cancellation", "deadline"))
def callbacks_come_once_and_in_order(ends: Ends, way: Way, ending: str) -> Record:
    diary, gate = Diary(), ends.gate()

    def unary(request: Any, context: Any) -> bytes:
        gate.wait(PATIENCE_S)
        if ending == "failure":
            context.abort(grpc.StatusCode.ABORTED, "so it goes")
        return b"response"

    method = ends.method(way.arity, one_response(way.arity, unary))
    call = begun(way.arity, method, timeout=0.3 if ending == "deadline" else PATIENCE_S)
    call.add_done_callback(lambda told: diary.note(("done", told is call)))
    added = call.add_callback(lambda: diary.note("callback"))
    call.add_done_callback(lambda told: diary.note(("done again", told.done(), told.code().name)))
    if ending == "cancellation":
        call.cancel()
    if ending == "deadline":
        diary.after(3)  # though nobody asks
    gate.set()
    if way.style == "iterator":
        attempt(list, call)
    return {"added": added, "diary": diary.after(3)}


@case
def a_callback_that_fails_stops_nobody(ends: Ends) -> Record:
    diary, gate = Diary(), ends.gate()

    def fail(told: Any) -> None:
        diary.note("fails")
        raise RuntimeError("a defect of the callback")

    def behaviour(request: bytes, context: Any) -> bytes:
        gate.wait(PATIENCE_S)
        return request

    future = ends.unary_unary(behaviour).future(b"request")
    future.add_done_callback(fail)
    future.add_done_callback(lambda told: diary.note("is told"))
    gate.set()
    return {"result": attempt(future.result, timeout=PATIENCE_S), "diary": diary.after(2)}


@each(way=FREE_WAYS)
def a_late_callback_that_raises_is_the_callers(ends: Ends, way: Way) -> Record:
    """Added to a call that has ended it runs at once, on the caller's thread; the others go on."""
    diary = Diary()
    held = _Held(ends, way)
    held.let_go()
    call = held.call
    attempt(list, call) if way.style == "iterator" else attempt(call.result, timeout=PATIENCE_S)
    call.code()

    def fail(told: Any) -> None:
        raise RuntimeError("a defect of the callback")

    added = [repr(_raised(call.add_done_callback, one)) for one in (fail, lambda told: diary.note("is told"))]
    return {"added": added, "diary": diary.after(1), "code": call.code().name}


@case
def a_callback_may_make_calls(ends: Ends) -> Record:
    diary, gate = Diary(), ends.gate()

    def behaviour(request: bytes, context: Any) -> bytes:
        if request == b"first":
            gate.wait(PATIENCE_S)
        return request

    method = ends.unary_unary(behaviour)
    future = method.future(b"first")
    future.add_done_callback(
        lambda told: method.future(b"second").add_done_callback(lambda told: diary.note(told.result()))
    )
    gate.set()
    return {"first": attempt(future.result, timeout=PATIENCE_S), "second": diary.after(1)}


def _raised(function: Any, *arguments: Any) -> Exception | None:
    try:
        function(*arguments)
    except Exception as error:
        return error
    return None


@case
def an_error_of_a_blocking_call_answers_everything(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.ABORTED, "so it goes")

    error: Any = _raised(ends.unary_unary(behaviour), b"request")
    diary = Diary()
    error.add_done_callback(lambda told: diary.note(told is error))
    return {
        "cancel": error.cancel(),
        "exception": error.exception() is error,
        "result": attempt(error.result),
        "traceback": type(error.traceback()).__name__,
        "told": diary.after(1),
        "debug": isinstance(error.debug_error_string(), str),
        "says": ["ABORTED" in str(error), "so it goes" in str(error), "so it goes" in repr(error)],
    }


@case
def a_call_of_with_call_answers_everything(ends: Ends) -> Record:
    _, call = ends.unary_unary(lambda request, context: request).with_call(b"request")
    return {
        "classes": classes(call),
        **state(call),
        "active": call.is_active(),
        "cancel": call.cancel(),
        "time_remaining": call.time_remaining(),
        "result": attempt(call.result),
        "exception": attempt(call.exception),
        "traceback": attempt(call.traceback),
    }
