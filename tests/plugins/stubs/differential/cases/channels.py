"""Channels: closing, connectivity, waiting for a server, and finding it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..both import BOTH, FREE_WAYS, THREADS, WAYS, Driver, Read, echo
from ..ends import ARITIES, Ends, generic_handler, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, state
from ..registry import case, each

ECHO = {"Method": method_handler("unary_unary", lambda request, context: request)}


def _until(diary: Diary, seen: Callable[[list[Any]], bool]) -> list[Any]:
    """Return the diary as it is when it satisfies a condition, or when patience ends."""
    lines = diary.after(0)
    while not seen(lines) and len(diary.after(len(lines) + 1)) > len(lines):
        lines = diary.after(0)
    return lines


def _echo(ends: Driver) -> dict[str, Any]:
    return {"Method": method_handler("unary_unary", ends.behaviour("unary_unary", echo))}


@each(BOTH, way=FREE_WAYS)
async def closing_ends_pending_calls(ends: Driver, way: Way) -> Record:
    gate, begun, told = ends.gate(), ends.flag(), ends.flag()

    async def answer(read: Read, context: Any) -> bytes:
        context.add_done_callback(lambda _: told.set())
        begun.set()
        await gate.happened()
        return b"too late"

    served = await ends.serve({"Method": method_handler(way.arity, ends.behaviour(way.arity, answer))})
    channel = ends.connect(served.target)
    call = ends.start(way, getattr(channel, way.arity)(path()))
    seen: Record = {"begun": await begun.happened()}
    await ends.close(channel)
    return {**seen, "result": await ends.result(way, call), **await ends.ended(call), "told": await told.happened()}


@each(BOTH, way=WAYS)
async def a_closed_channel_refuses_calls(ends: Driver, way: Way) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends))).target)
    method = getattr(channel, way.arity)(path())
    await ends.close(channel)
    await ends.close(channel)
    return await ends.invoke(way, method)


@case
def a_channel_is_a_context(ends: Ends) -> Record:
    with ends.connect(ends.serve(ECHO).target) as channel:
        method = channel.unary_unary(path())
        inside = attempt(method, b"request")
    return {"inside": inside, "outside": attempt(method, b"request")}


@case
def closing_one_channel_leaves_the_other(ends: Ends) -> Record:
    target = ends.serve(ECHO).target
    first, second = ends.connect(target), ends.connect(target)
    first.unary_unary(path())(b"request")
    method = second.unary_unary(path())
    method(b"request")
    first.close()
    return attempt(method, b"request")


@case
def a_subscriber_sees_the_channel_become_ready(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    channel.subscribe(diary.note, try_to_connect=True)
    ready = grpc.ChannelConnectivity.READY
    lines = _until(diary, lambda lines: ready in lines)
    return {"first": lines[0].name, "last": lines[-1].name, "in order": _rises(lines)}


def _rises(lines: list[Any]) -> bool:
    """Whether the states come in the order of their growing readiness; gRPC may skip some of them."""
    order = ["IDLE", "CONNECTING", "READY"]
    places = [order.index(line.name) for line in lines]
    return places == sorted(set(places))


@case
def a_subscriber_that_does_not_connect_sees_idle(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    channel.subscribe(diary.note)
    return {"states": [line.name for line in diary.after(1)]}


@case
def a_call_makes_the_channel_ready(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    channel.subscribe(diary.note)
    first = [line.name for line in diary.after(1)]
    channel.unary_unary(path())(b"request")
    lines = _until(diary, lambda lines: grpc.ChannelConnectivity.READY in lines)
    return {"first": first, "last": lines[-1].name}


@case
def a_subscriber_sees_that_nobody_is_there(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.address()), Diary()
    channel.subscribe(diary.note, try_to_connect=True)
    failure = grpc.ChannelConnectivity.TRANSIENT_FAILURE
    return {"seen": failure in _until(diary, lambda lines: failure in lines)}


@case
def a_subscriber_sees_the_server_go(ends: Ends) -> Record:
    served, diary = ends.serve(ECHO), Diary()
    channel = ends.connect(served.target)
    channel.subscribe(diary.note, try_to_connect=True)
    ready = grpc.ChannelConnectivity.READY
    seen = {"ready": ready in _until(diary, lambda lines: ready in lines)}
    served.server.stop(None).wait(PATIENCE_S)
    return {**seen, "gone": _until(diary, lambda lines: lines[-1] is not ready)[-1].name}


@case
def a_late_subscriber_is_told_the_state(ends: Ends) -> Record:
    channel, early, late = ends.connect(ends.serve(ECHO).target), Diary(), Diary()
    channel.subscribe(early.note, try_to_connect=True)
    _until(early, lambda lines: grpc.ChannelConnectivity.READY in lines)
    channel.subscribe(late.note)
    return {"late": [line.name for line in late.after(1)]}


@case
def an_unsubscribed_callback_is_not_told(ends: Ends) -> Record:
    channel, kept, dropped = ends.connect(ends.serve(ECHO).target), Diary(), Diary()
    channel.subscribe(kept.note)
    channel.subscribe(dropped.note)
    idle = [len(kept.after(1)), len(dropped.after(1))]
    channel.unsubscribe(dropped.note)
    channel.unary_unary(path())(b"request")
    _until(kept, lambda lines: grpc.ChannelConnectivity.READY in lines)
    return {"idle": idle, "kept": kept.after(0)[-1].name, "dropped": len(dropped.after(0))}


@case
def unsubscribing_a_stranger_is_no_error(ends: Ends) -> Record:
    return attempt(ends.connect(ends.serve(ECHO).target).unsubscribe, print)


@case
def a_callback_that_fails_stops_nobody(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()

    def fail(connectivity: Any) -> None:
        failing.note(connectivity)
        raise RuntimeError("a defect of the callback")

    failing = Diary()
    channel.subscribe(fail, try_to_connect=True)
    channel.subscribe(diary.note)
    ready = grpc.ChannelConnectivity.READY
    return {"ready": [ready in _until(one, lambda lines: ready in lines) for one in (diary, failing)]}


@case
def a_callback_may_unsubscribe_and_call(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()

    def look(connectivity: Any) -> None:
        channel.unsubscribe(look)
        diary.note((connectivity, attempt(channel.unary_unary(path()), b"request", timeout=PATIENCE_S)))

    channel.subscribe(look)
    return {"told": diary.after(1)}


@case
def the_ready_future_comes_true(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    future = grpc.channel_ready_future(channel)
    future.add_done_callback(lambda told: diary.note(told is future))
    return {
        "result": attempt(future.result, timeout=PATIENCE_S),
        **state(future),
        "exception": attempt(future.exception),
        "told": diary.after(1),
    }


@case
def the_ready_future_waits_in_vain(ends: Ends) -> Record:
    future = grpc.channel_ready_future(ends.connect(ends.address()))
    seen = {"result": attempt(future.result, timeout=0.1), **state(future), "cancel": future.cancel()}
    return {**seen, "then": state(future), "after": attempt(future.result)}


@case
def a_call_without_a_server_is_unavailable_each_time(ends: Ends) -> Record:
    served = ends.serve(ECHO)
    method = ends.connect(served.target).unary_unary(path())
    method(b"request")
    served.server.stop(None).wait(PATIENCE_S)
    codes = [attempt(method, b"request", timeout=PATIENCE_S)["raised"]["code"] for _ in range(2)]
    return {"codes": codes}


@each(BOTH, arity=ARITIES)
async def multicallables_are_made_without_a_server(ends: Driver, arity: str) -> Record:
    channel = ends.connect(ends.address())
    kinds: Any = grpc if ends.driver == THREADS else grpc.aio
    kind = getattr(kinds, f"{arity.title().replace('_', '')}MultiCallable")
    return {"channel": isinstance(channel, kinds.Channel), "method": isinstance(getattr(channel, arity)(path()), kind)}


@case
def a_stub_may_be_made_before_the_server(ends: Ends) -> Record:
    address = ends.address()
    method = ends.connect(address).unary_unary(path())
    server = ends.server(generic_handler(ECHO))
    server.add_insecure_port(address)
    server.start()
    return attempt(method, b"request", wait_for_ready=True, timeout=PATIENCE_S)
