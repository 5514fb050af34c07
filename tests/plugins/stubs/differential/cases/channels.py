"""Channels: closing, connectivity, and waiting for a server."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc

from ..aio_ends import AioEnds
from ..aio_ends import attempt as aio_attempt
from ..both import ASYNCIO, BOTH, FREE_WAYS, THREADS, WAYS, Driver, Held, echo
from ..ends import ARITIES, Ends, method_handler, path
from ..records import PATIENCE_S, Diary, Record, Way, attempt, state
from ..registry import case, each

ECHO = {"Method": method_handler("unary_unary", lambda request, context: request)}


def _until(diary: Diary, seen: Callable[[list[Any]], bool]) -> list[Any]:
    """Return the diary as it is when it satisfies a condition, or when patience ends."""
    lines = diary.after(0)
    while not seen(lines) and len(diary.after(len(lines) + 1)) > len(lines):
        lines = diary.after(0)
    return lines


READY = grpc.ChannelConnectivity.READY


def _echo(ends: Driver) -> dict[str, Any]:
    return {"Method": method_handler("unary_unary", ends.behaviour("unary_unary", echo))}


@each(BOTH, way=FREE_WAYS)
async def closing_ends_pending_calls(ends: Driver, way: Way) -> Record:
    held = Held(ends, reads=False)
    served = await ends.serve({"Method": method_handler(way.arity, ends.behaviour(way.arity, held.answer))})
    channel = ends.connect(served.target)
    call = ends.start(way, getattr(channel, way.arity)(path()))
    seen: Record = {"begun": await held.begun.happened()}
    await ends.close(channel)
    seen |= {"result": await ends.result(way, call), **await ends.ended(call)}
    return {**seen, "told": await held.told.happened()}


@each(BOTH, way=WAYS)
async def a_closed_channel_refuses_calls(ends: Driver, way: Way) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends))).target)
    method = getattr(channel, way.arity)(path())
    await ends.close(channel)
    await ends.close(channel)
    return await ends.invoke(way, method)


@each(BOTH, options=([(5, 5)], [("a",)], 5))
async def what_are_no_options_is_refused(ends: Driver, options: Any) -> Record:
    try:
        ends.connect(ends.address(), options)
    except Exception as refused:
        return {"refused": type(refused).__name__}
    return {}


@each(BOTH)
async def a_channel_is_a_context(ends: Driver) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends))).target)
    method = channel.unary_unary(path())
    async with AsyncExitStack() as stack:
        _ = stack.enter_context(channel) if ends.driver == THREADS else await stack.enter_async_context(channel)
        inside = await ends.attempt(method, b"request")
    return {"inside": inside, "outside": await ends.attempt(method, b"request")}


@case
def a_subscriber_sees_the_channel_become_ready(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    channel.subscribe(diary.note, try_to_connect=True)
    lines = _until(diary, lambda lines: READY in lines)
    return {"first": lines[0].name, "last": lines[-1].name, "in order": _rises(lines)}


def _rises(lines: list[Any]) -> bool:
    """Whether the states come in the order of their growing readiness; gRPC may skip some of them."""
    order = ["IDLE", "CONNECTING", "READY"]
    places = [order.index(line.name) for line in lines]
    return places == sorted(set(places))


@case
def a_call_makes_the_channel_ready(ends: Ends) -> Record:
    channel, diary = ends.connect(ends.serve(ECHO).target), Diary()
    channel.subscribe(diary.note)
    first = [line.name for line in diary.after(1)]
    channel.unary_unary(path())(b"request")
    lines = _until(diary, lambda lines: READY in lines)
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
    seen = {"ready": READY in _until(diary, lambda lines: READY in lines)}
    served.server.stop(None).wait(PATIENCE_S)
    return {**seen, "gone": _until(diary, lambda lines: lines[-1] is not READY)[-1].name}


@case
def a_late_subscriber_is_told_the_state(ends: Ends) -> Record:
    channel, early, late = ends.connect(ends.serve(ECHO).target), Diary(), Diary()
    channel.subscribe(early.note, try_to_connect=True)
    _until(early, lambda lines: READY in lines)
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
    _until(kept, lambda lines: READY in lines)
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
    return {"ready": [READY in _until(one, lambda lines: READY in lines) for one in (diary, failing)]}


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


@each(BOTH, arity=ARITIES)
async def multicallables_are_made_without_a_server(ends: Driver, arity: str) -> Record:
    channel = ends.connect(ends.address())
    kinds: Any = grpc if ends.driver == THREADS else grpc.aio
    kind = getattr(kinds, f"{arity.title().replace('_', '')}MultiCallable")
    return {"channel": isinstance(channel, kinds.Channel), "method": isinstance(getattr(channel, arity)(path()), kind)}


@each((ASYNCIO,), grace=(PATIENCE_S, 0.05))
async def closing_with_grace(ends: AioEnds, grace: float) -> Record:
    held = Held(ends)
    served = await ends.serve({"Method": method_handler("unary_unary", ends.behaviour("unary_unary", held.answer))})
    channel = ends.connect(served.target)
    call = channel.unary_unary(path())(b"request")
    await held.begun.happened()
    closing = asyncio.ensure_future(channel.close(grace))
    await asyncio.sleep(0.05)
    if grace == PATIENCE_S:
        held.let_go()
    return {"close": await aio_attempt(closing), "response": await aio_attempt(call), **await ends.ended(call)}


@each((ASYNCIO,))
async def the_states_of_a_channel(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends))).target)
    seen: Record = {"first": channel.get_state().name, "past": await aio_attempt(channel.wait_for_state_change(READY))}
    await asyncio.wait_for(channel.channel_ready(), PATIENCE_S)
    seen["ready"] = channel.get_state().name
    waiting = asyncio.ensure_future(channel.wait_for_state_change(READY))
    await asyncio.sleep(0.05)
    await channel.close()
    ended = [await aio_attempt(one) for one in (waiting, channel.wait_for_state_change(READY))]
    raised = [one.get("raised", {}).get("classes") for one in ended]
    return {**seen, "raised": raised, "closed": channel.get_state().name}


@each((ASYNCIO,))
async def trying_to_connect_makes_it_ready(ends: AioEnds) -> Record:
    channel = ends.connect((await ends.serve(_echo(ends))).target)
    state = channel.get_state(try_to_connect=True)
    while state is not READY:
        await asyncio.wait_for(channel.wait_for_state_change(state), PATIENCE_S)
        state = channel.get_state(try_to_connect=True)
    return {"last": state.name}


@each((ASYNCIO,))
async def nobody_is_there(ends: AioEnds) -> Record:
    channel = ends.connect(ends.address())
    state = channel.get_state(try_to_connect=True)
    for _ in range(5):
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            break
        await asyncio.wait_for(channel.wait_for_state_change(state), PATIENCE_S)
        state = channel.get_state(try_to_connect=True)
    return {"state": state.name}
