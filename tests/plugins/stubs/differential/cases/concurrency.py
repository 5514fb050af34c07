"""Many calls at once, from many threads, on one channel and on several."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import ARITIES, Ends, method_handler, path
from ..invoking import WAYS, Way, answering, argument, invoke
from ..records import PATIENCE_S, Diary, Record, attempt, taken
from ..registry import case, each

THREADS = 8
CALLS = 40


def _all(work: Any, count: int = CALLS) -> list[Any]:
    """Return what `work(number)` gives for every number, done by several threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(count)))


@each(way=WAYS)
def calls_of_many_threads(ends: Ends, way: Way) -> Record:
    method = ends.method(way.arity, answering(way.arity, lambda request, _: request))
    seen = _all(lambda number: invoke(way.style, method, argument(way.arity)))
    return {"the same": all(one == seen[0] for one in seen), "one": seen[0]}


@each(arity=ARITIES)
def every_caller_gets_its_own_answer(ends: Ends, arity: str) -> Record:
    method = ends.method(arity, answering(arity, lambda request, _: request))

    def call(number: int) -> Any:
        own = str(number).encode()
        answer = method(iter((own, own)) if arity.startswith("stream") else own)
        return list(answer) if arity.endswith("stream") else answer

    return {"answers": _all(call)}


@case
def many_futures_of_one_thread(ends: Ends) -> Record:
    method = ends.unary_unary(lambda request, context: request)
    futures = [method.future(str(number).encode()) for number in range(200)]
    return {"results": [future.result(PATIENCE_S) for future in futures]}


@case
def futures_end_in_the_order_of_their_answers(ends: Ends) -> Record:
    gate, diary = ends.gate(), Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        if request == b"slow":
            gate.wait(PATIENCE_S)
        return request

    method = ends.unary_unary(behaviour)
    slow, fast = method.future(b"slow"), method.future(b"fast")
    slow.add_done_callback(lambda told: diary.note("slow"))
    fast.add_done_callback(lambda told: diary.note("fast"))
    seen: Record = {"fast": attempt(fast.result, timeout=PATIENCE_S), "early": diary.after(1)}
    gate.set()
    return {**seen, "slow": attempt(slow.result, timeout=PATIENCE_S), "late": diary.after(2)}


@case
def streams_run_side_by_side(ends: Ends) -> Record:
    method = ends.unary_stream(lambda request, context: (request + str(n).encode() for n in range(50)), workers=THREADS)
    calls = [method(str(number).encode()) for number in range(THREADS)]
    turns = [[next(call) for call in calls] for _ in range(50)]
    return {"turns": turns, "ends": [taken(call) for call in calls]}


@case
def conversations_run_side_by_side(ends: Ends) -> Record:
    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            yield request.upper()

    method = ends.stream_stream(behaviour, workers=THREADS)
    return {"all": _all(lambda number: taken(method(iter([f"a{number}-{n}".encode() for n in range(20)]))), THREADS)}


@case
def unary_calls_pass_a_stream_nobody_reads(ends: Ends) -> Record:
    served = ends.serve(
        {
            "Endless": method_handler("unary_stream", lambda request, context: iter(lambda: b"x" * 1_000, None)),
            "Echo": method_handler("unary_unary", lambda request, context: request),
        }
    )
    channel = ends.connect(served.target)
    endless = channel.unary_stream(path("Endless"))(b"request")
    echo = channel.unary_unary(path("Echo"))
    seen = {"first": len(next(endless)), "answers": [attempt(echo, b"request", timeout=PATIENCE_S) for _ in range(20)]}
    endless.cancel()
    return seen


@case
def many_channels_to_one_server(ends: Ends) -> Record:
    served = ends.serve({"Method": method_handler("unary_unary", lambda request, context: request)})
    methods = [ends.connect(served.target).unary_unary(path()) for _ in range(THREADS)]
    return {"answers": _all(lambda number: methods[number % THREADS](str(number).encode()))}


@case
def one_channel_of_many_methods(ends: Ends) -> Record:
    def saying(text: str) -> Any:
        return method_handler("unary_unary", lambda request, context: text.encode())

    served = ends.serve({f"Method{number}": saying(str(number)) for number in range(300)})
    channel = ends.connect(served.target)
    return {"answers": [channel.unary_unary(path(f"Method{number}"))(b"") for number in range(300)]}


@case
def some_fail_and_the_others_do_not(ends: Ends) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        if int(request) % 3 == 0:
            context.abort(grpc.StatusCode.ABORTED, request.decode())
        return request

    method = ends.unary_unary(behaviour)
    return {"calls": _all(lambda number: attempt(method, str(number).encode()))}


@case
def calls_are_cancelled_from_another_thread(ends: Ends) -> Record:
    gate, begun = ends.gate(), Diary()

    def behaviour(request: bytes, context: Any) -> bytes:
        begun.note(request)
        gate.wait(PATIENCE_S)
        return request

    method = ends.unary_unary(behaviour)
    futures = [method.future(b"request") for _ in range(THREADS)]
    begun.after(THREADS)
    canceller = threading.Thread(target=lambda: [future.cancel() for future in futures])
    canceller.start()
    results = [attempt(future.result, PATIENCE_S) for future in futures]
    canceller.join(PATIENCE_S)
    return {"results": results}


@case
def a_handler_calls_its_own_server(ends: Ends) -> Record:
    onward: list[Any] = []

    def behaviour(request: bytes, context: Any) -> bytes:
        return onward[0](request[1:]) + b"." if request else b"end"

    onward.append(ends.unary_unary(behaviour))
    return attempt(onward[0], b"12345", timeout=PATIENCE_S)
