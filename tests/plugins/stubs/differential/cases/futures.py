"""What a call answers while it runs and after it has ended."""

from typing import Any

import grpc

from ..both import BOTH, FREE_WAYS, THREADS, Driver, Held, OverThreads, Read, echo
from ..ends import Ends
from ..records import PATIENCE_S, Diary, Record, Way, attempt, classes, state
from ..registry import case, each


@each(BOTH, way=FREE_WAYS, timeout=(PATIENCE_S, None))
async def a_call_that_runs(ends: Driver, way: Way, timeout: float | None) -> Record:
    held = Held(ends)
    method = await ends.method(way.arity, ends.behaviour(way.arity, held.answer))
    call = ends.start(way, method, timeout=timeout)
    seen: Record = {"begun": await held.begun.happened(), "classes": classes(call), **ends.state(call)}
    left = call.time_remaining()
    seen["time remains"] = left if left is None else 0 < left <= PATIENCE_S
    if ends.driver == THREADS:
        seen |= {
            f"{ask} {timeout}": attempt(getattr(call, ask), timeout=timeout)
            for ask in ("result", "exception", "traceback")
            for timeout in (0.05, 0, -1)
        }
    held.let_go()
    return {**seen, "finish": await ends.finish(way, call)}


@each((THREADS,), way=FREE_WAYS, ending=("success", "failure", "cancellation", "deadline"))
async def callbacks_come_once_and_in_order(ends: OverThreads, way: Way, ending: str) -> Record:
    diary, held = Diary(), Held(ends, reads=False)

    async def answer(read: Read, context: Any) -> bytes:
        response = await held.answer(read, context)
        if ending == "failure":
            await context.abort(grpc.StatusCode.ABORTED, "so it goes")
        return response

    method = await ends.method(way.arity, ends.behaviour(way.arity, answer))
    call = ends.start(way, method, timeout=0.3 if ending == "deadline" else PATIENCE_S)
    call.add_done_callback(lambda told: diary.note(("done", told is call)))
    added = call.add_callback(lambda: diary.note("callback"))
    call.add_done_callback(lambda told: diary.note(("done again", told.done(), told.code().name)))
    if ending == "cancellation":
        call.cancel()
    if ending == "deadline":
        diary.after(3)  # though nobody asks
    held.let_go()
    if way.style == "iterator":
        attempt(list, call)
    return {"added": added, "diary": diary.after(3)}


@each((THREADS,))
async def a_callback_that_fails_stops_nobody(ends: OverThreads) -> Record:
    diary, held = Diary(), Held(ends)

    def fail(told: Any) -> None:
        diary.note("fails")
        raise RuntimeError("a defect of the callback")

    future = (await ends.method("unary_unary", ends.behaviour("unary_unary", held.answer))).future(b"request")
    future.add_done_callback(fail)
    future.add_done_callback(lambda told: diary.note("is told"))
    held.let_go()
    return {"result": attempt(future.result, timeout=PATIENCE_S), "diary": diary.after(2)}


@each((THREADS,), way=FREE_WAYS)
async def a_late_callback_that_raises_is_the_callers(ends: OverThreads, way: Way) -> Record:
    """Added to a call that has ended it runs at once, on the caller's thread; the others go on."""
    diary = Diary()
    call = ends.start(way, await ends.method(way.arity, ends.behaviour(way.arity, echo)))
    await ends.result(way, call)
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
