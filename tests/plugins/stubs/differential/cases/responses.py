"""What the client reads: parts of a stream, more than there is, and responses that are no messages."""

import gc
import itertools
import time
from collections.abc import Iterator
from typing import Any

import grpc
from grpc.experimental import ChannelOptions

from ..both import ASYNCIO, BOTH, THREADS, Driver, Held, Read, ways_of
from ..ends import Ends, method_handler, path
from ..records import EXPIRIES_S, PATIENCE_S, Record, Way, attempt, status, taken
from ..registry import case, each

STREAMS = ways_of("unary_stream", "stream_stream")


def _numbers(count: int) -> Iterator[bytes]:
    return (str(number).encode() for number in range(count))


@each(count=(0, 1, 2, 1_000))
def all_items_come_in_order(ends: Ends, count: int) -> Record:
    return taken(ends.unary_stream(lambda request, context: _numbers(count))(b"request"))


@each(fails=(False, True))
def a_stream_that_has_ended_stays_ended(ends: Ends, fails: bool) -> Record:
    def behaviour(request: bytes, context: Any) -> Iterator[bytes]:
        yield b"item"
        if fails:
            raise RuntimeError("boom")

    call = ends.unary_stream(behaviour)(b"request")
    return {"first": taken(call), "again": taken(call), "itself": _same_error(call)}


def _same_error(call: Any) -> bool:
    try:
        next(call)
    except Exception as raised:
        return raised is call
    return False


@case
def a_call_is_its_own_iterator(ends: Ends) -> Record:
    call = ends.unary_stream(lambda request, context: _numbers(2))(b"request")
    return {"same": iter(call) is call, "next method": attempt(call.next), "rest": taken(call)}


# A call of grpc.aio that is dropped goes on.
@each(BOTH, way=ways_of("unary_stream"), items=(0, 3), how={THREADS: ("cancels", "drops it"), ASYNCIO: ("cancels",)})
async def a_part_is_read_and_the_caller_leaves(ends: Driver, way: Way, items: int, how: str) -> Record:
    begun, closed = ends.flag(), ends.flag()

    def numbers(request: bytes) -> Iterator[bytes]:
        try:
            for number in itertools.count():
                begun.set()
                yield str(number).encode()
        finally:
            closed.set()

    call = ends.start(way, await ends.method(way.arity, ends.flow(way.arity, numbers)))
    seen: Record = {"begun": await begun.happened(), "part": [await ends.first(way, call) for _ in range(items)]}
    if how == "cancels":
        seen |= {"cancel": call.cancel(), "rest": await ends.result(way, call), **await ends.ended(call)}
    del call
    gc.collect()
    return {**seen, "closed": await closed.happened()}


@each((THREADS,))
async def a_future_is_dropped(ends: Driver) -> Record:
    held = Held(ends)
    future = (await ends.method("unary_unary", ends.behaviour("unary_unary", held.answer))).future(b"request")
    seen: Record = {"begun": await held.begun.happened()}
    del future
    gc.collect()
    return {**seen, "told": await held.told.happened()}


@each(BOTH, answer=(None, "text"))
async def a_unary_response_is_no_bytes(ends: Driver, answer: Any) -> Record:
    async def behaviour(read: Read, context: Any) -> Any:
        return answer

    return await ends.attempt(
        await ends.method("unary_unary", ends.behaviour("unary_unary", behaviour)), b"", timeout=2
    )


@each(answer=("None", "a list", "a number"))
def the_responses_are_no_iterator(ends: Ends, answer: str) -> Record:
    value: Any = {"None": None, "a list": [b"one", b"two"], "a number": 5}[answer]
    return taken(ends.unary_stream(lambda request, context: value)(b"request"))


@case
def an_item_is_none(ends: Ends) -> Record:
    return taken(ends.unary_stream(lambda request, context: iter((b"one", None, b"three")))(b"request"))


@case
def the_serializer_fails_midway(ends: Ends) -> Record:
    def serialize(response: bytes) -> bytes:
        if response == b"1":
            raise ValueError("not one")
        return response

    handler = method_handler("unary_stream", lambda request, context: _numbers(3), response_serializer=serialize)
    channel = ends.connect(ends.serve({"Method": handler}).target)
    return taken(channel.unary_stream(path())(b"request"))


@each(BOTH, way=STREAMS, wrong=(b"1", b"2"))
async def an_item_cannot_be_decoded(ends: Driver, way: Way, wrong: bytes) -> Record:
    told = ends.flag()

    def decode(response: bytes) -> bytes:
        if response == wrong:
            raise ValueError("not that one")
        return response

    async def answer(read: Read, context: Any) -> bytes:
        context.add_done_callback(lambda _: told.set())
        return await read()

    handler = method_handler(way.arity, ends.behaviour(way.arity, answer, last=(b"1", b"2")))
    channel = ends.connect((await ends.serve({"Method": handler})).target)
    call = ends.start(way, getattr(channel, way.arity)(path(), response_deserializer=decode), timeout=PATIENCE_S)
    seen = {**await ends.finish(way, call), "again": await ends.result(way, call)}
    return {**seen, "told": await told.happened()}


@each(BOTH, way=STREAMS)
async def a_stream_that_was_not_opened_is_read_again(ends: Driver, way: Way) -> Record:
    call = ends.start(way, getattr(ends.connect(ends.address()), way.arity)(path()), timeout=PATIENCE_S)
    results = [await ends.result(way, call) for _ in range(3)]
    ends_with = [one["ended"] for one in results]
    return {"items": [one["items"] for one in results], "raised": [isinstance(one, dict) for one in ends_with]}


@each(
    BOTH,
    way={driver: ways[:1] for driver, ways in STREAMS.items()},
    items=(0, 3),
    ends_with=("OK", "ABORTED", "nothing"),
    read=(0, 1),
)
async def a_stream_is_read_after_its_deadline(ends: Driver, way: Way, items: int, ends_with: str, read: int) -> Record:
    gate, seen = ends.gate(), Record()
    for timeout in EXPIRIES_S:
        ending = ends.flag()

        async def answer(_: Read, context: Any, ending: Any = ending) -> None:
            ending.set()
            if ends_with == "nothing":
                await gate.happened()
            elif ends_with == "ABORTED":
                await context.abort(grpc.StatusCode.ABORTED, "no")

        method = await ends.method(way.arity, ends.behaviour(way.arity, answer, *([b"item"] * items)))
        call = ends.start(way, method, timeout=timeout)
        first = await ends.first(way, call) if items and read else None
        is_early = await ending.happened() and call.time_remaining() > timeout / 2
        await ends.settle()
        before = ends.state(call) if items else None
        await ends.aside(time.sleep, timeout + 0.1)
        seen = {
            "first": first,
            "before": before,
            "rest": await ends.result(way, call),
            "again": await ends.result(way, call),
        }
        if is_early:
            break
    return seen


@case
def a_stream_of_a_single_thread(ends: Ends) -> Record:
    option = (ChannelOptions.SingleThreadedUnaryStream, 1)
    call = ends.unary_stream(lambda request, context: _numbers(3), channel_options=(option,))(b"request")
    return {"initial": list(call.initial_metadata()), "taken": taken(call), **status(call), "done": call.done()}
