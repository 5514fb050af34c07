"""Many calls at once, from many threads or tasks, on one channel and on several."""

from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, WAYS, Driver, Held, Read, echo
from ..ends import ARITIES, Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt
from ..registry import case, each

AT_ONCE = 8
CALLS = 40
STREAMS = {THREADS: [Way("unary_stream", "iterator")], ASYNCIO: [Way("unary_stream", "read")]}


@each(BOTH, way=WAYS)
async def calls_of_many(ends: Driver, way: Way) -> Record:
    method = await ends.method(way.arity, ends.behaviour(way.arity, echo, b"first"))
    seen = await ends.gather(lambda _: ends.invoke(way, method), CALLS)
    return {"the same": all(one == seen[0] for one in seen), "one": seen[0]}


@each(BOTH, arity=ARITIES)
async def every_caller_gets_its_own_answer(ends: Driver, arity: str) -> Record:
    method = await ends.method(arity, ends.behaviour(arity, echo, b"first"))

    async def call(number: int) -> Any:
        own = str(number).encode()
        sent = iter((own, own)) if arity.startswith("stream") else own
        return await (ends.taken if arity.endswith("stream") else ends.attempt)(method, sent)

    return {"answers": await ends.gather(call, CALLS)}


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


@each(BOTH, way=STREAMS)
async def streams_run_side_by_side(ends: Driver, way: Way) -> Record:
    method = await ends.method(
        way.arity, ends.flow(way.arity, lambda request: (request + str(n).encode() for n in range(50)))
    )
    calls = [method(str(number).encode()) for number in range(AT_ONCE)]
    turns = [[await ends.first(way, call) for call in calls] for _ in range(50)]
    return {"turns": turns, "ends": [await ends.finish(way, call) for call in calls]}


@each(BOTH, way=STREAMS)
async def unary_calls_pass_a_stream_nobody_reads(ends: Driver, way: Way) -> Record:
    endless = ends.flow(way.arity, lambda request: iter(lambda: b"x" * 1_000, None))
    served = await ends.serve(
        {
            "Endless": method_handler(way.arity, endless),
            "Echo": method_handler("unary_unary", ends.behaviour("unary_unary", echo)),
        }
    )
    channel = ends.connect(served.target)
    stream, method = channel.unary_stream(path("Endless"))(b"request"), channel.unary_unary(path("Echo"))
    seen: Record = {"first": await ends.first(way, stream)}
    seen["answers"] = [await ends.attempt(method, b"request", timeout=PATIENCE_S) for _ in range(20)]
    stream.cancel()
    return seen


@each(BOTH)
async def many_channels_to_one_server(ends: Driver) -> Record:
    served = await ends.serve({"Method": method_handler("unary_unary", ends.behaviour("unary_unary", echo))})
    methods = [ends.connect(served.target).unary_unary(path()) for _ in range(AT_ONCE)]

    async def call(number: int) -> Record:
        return await ends.attempt(methods[number % AT_ONCE], str(number).encode())

    return {"answers": await ends.gather(call, CALLS)}


@case
def one_channel_of_many_methods(ends: Ends) -> Record:
    def saying(text: str) -> Any:
        return method_handler("unary_unary", lambda request, context: text.encode())

    served = ends.serve({f"Method{number}": saying(str(number)) for number in range(300)})
    channel = ends.connect(served.target)
    return {"answers": [channel.unary_unary(path(f"Method{number}"))(b"") for number in range(300)]}


@each(BOTH)
async def some_fail_and_the_others_do_not(ends: Driver) -> Record:
    async def answer(read: Read, context: Any) -> bytes:
        request = await read()
        if int(request) % 3 == 0:
            await context.abort(grpc.StatusCode.ABORTED, request.decode())
        return request

    method = await ends.method("unary_unary", ends.behaviour("unary_unary", answer))
    return {"calls": await ends.gather(lambda number: ends.attempt(method, str(number).encode()), CALLS)}


@each(BOTH, way={driver: ways[:1] for driver, ways in FREE_WAYS.items()})
async def some_are_cancelled_and_the_others_go_on(ends: Driver, way: Way) -> Record:
    held = Held(ends)
    method = await ends.method(way.arity, ends.behaviour(way.arity, held.answer))
    calls = [ends.start(way, method) for _ in range(AT_ONCE)]
    await ends.settle()
    seen: Record = {"cancelling": [call.cancel() for call in calls[::2]]}
    held.let_go()
    return {**seen, "outcomes": [await ends.result(way, call) for call in calls]}


@each(BOTH)
async def a_handler_calls_its_own_server(ends: Driver) -> Record:
    onward: list[Any] = []

    async def answer(read: Read, context: Any) -> bytes:
        request = await read()
        return (await ends.attempt(onward[0], request[1:]))["value"] + b"." if request else b"end"

    onward.append(await ends.method("unary_unary", ends.behaviour("unary_unary", answer)))
    return await ends.attempt(onward[0], b"12345", timeout=PATIENCE_S)
