"""Threads and asyncio at the two ends of one connection, and an event loop that goes on serving whatever threads and
signal handlers do.
"""

import asyncio
import contextvars
import gc
import threading
from typing import Any, cast

import grpc
import pytest

from lucky_transport.rpc.client import ClientCalls
from lucky_transport.shm.eventfd import EventFd
from lucky_transport_stubs.aio.context import await_on
from lucky_transport_stubs.aio.server import ServerLoopReader
from tests.support.waiting import until

from ..differential.aio_ends import Read, run
from ..differential.both import ASYNCIO, THREADS, WAYS, OverThreads
from ..differential.ends import ARITIES, OURS, path
from .conftest import OurAioEnds, OurEnds


async def answer(read: Read, context: Any) -> bytes:
    if dict(context.invocation_metadata()).get("how") == "abort":
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here", (("key-bin", b"\x00"),))
    await context.send_initial_metadata((("first", "1"),))
    context.set_trailing_metadata((("last", "1"),))
    return await read()


@pytest.mark.parametrize("strategy", ["block", "adaptive", "spin"])
async def test_a_program_of_threads_or_of_asyncio_sees_the_same_of_either_server(
    ends: OurEnds, aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setenv("LUCKY_WAIT", strategy)
    threads = OverThreads(ends)
    methods = [{f"{arity} {arity}": one.behaviour(arity, answer) for arity in ARITIES} for one in (threads, aio)]
    targets = [ends.serve(methods[0]).target, (await aio.serve(methods[1])).target]
    for how in ("answer", "abort"):
        sent = {"metadata": (("how", how),)}
        for way in WAYS[THREADS]:
            called = [getattr(threads.connect(one), way.arity)(path(way.arity)) for one in targets]
            seen = [await asyncio.to_thread(run, threads.invoke(way, one, **sent)) for one in called]
            assert seen[0] == seen[1], way
        for way in WAYS[ASYNCIO]:
            called = [getattr(aio.connect(one), way.arity)(path(way.arity)) for one in targets]
            seen = [await aio.invoke(way, one, **sent) for one in called]
            assert seen[0] == seen[1], way


async def test_a_thread_gets_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise TimeoutError("its own")

    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError, match="its own"):
        await asyncio.to_thread(lambda: await_on(loop, fail()))


def test_a_closed_loop_is_told_at_once() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        await_on(loop, asyncio.sleep(0))


def test_a_thread_does_not_wait_for_a_loop_that_has_stopped() -> None:
    raised: list[Exception] = []
    loop = asyncio.new_event_loop()

    def work() -> None:
        try:
            await_on(loop, asyncio.sleep(3600))
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=work)

    async def start() -> None:
        thread.start()
        while len(asyncio.all_tasks()) < 2:
            await asyncio.sleep(0.001)

    loop.run_until_complete(start())
    thread.join(20)
    assert [str(error) for error in raised] == ["the event loop of the server has ended"]
    loop.run_until_complete(asyncio.sleep(0.01))  # the coroutine was cancelled, and ends when it can
    assert not asyncio.all_tasks(loop)
    loop.close()


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


class ScriptedLoop:
    """In the place of `ServerLoop`: its second look is interrupted, and no descriptor says when to look again."""

    patience_ns = None

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.looks: list[str] = []

    def fileno(self) -> int:
        return self._fd

    def expect(self) -> bool:
        return True

    def look(self, longest_ns: int) -> bool:
        self.looks.append(VARIABLE.get())
        if len(self.looks) == 2:
            raise TimeoutError("a signal handler's")
        return len(self.looks) == 1


async def test_an_interrupted_look_is_made_again_and_each_in_the_variables_of_the_start() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    VARIABLE.set("the start's")
    with EventFd() as event:
        serving = ScriptedLoop(event.fd)
        reader = ServerLoopReader(cast(Any, serving), loop, contextvars.copy_context())
        for _ in range(5):
            await asyncio.sleep(0)
        assert serving.looks == ["the start's"] * 3
        VARIABLE.set("a handler's")
        reader.expect()
        await asyncio.sleep(0)
        assert serving.looks == ["the start's"] * 4
        reader.close()


@pytest.mark.parametrize("arity", ["unary_unary", "unary_stream"])
async def test_a_closed_channel_is_gone_without_the_collector_of_cycles(
    ends: OurEnds, aio: OurAioEnds, arity: str
) -> None:
    threads = OverThreads(ends)
    target = ends.serve({f"{arity} {arity}": threads.behaviour(arity, answer)}).target

    async def call_and_close() -> None:
        with OURS.channel(target) as channel:
            await asyncio.to_thread(run, threads.invoke(_way(THREADS, arity), getattr(channel, arity)(path(arity))))
        async with OURS.aio_channel(target) as channel:
            await aio.invoke(_way(ASYNCIO, arity), getattr(channel, arity)(path(arity)))

    await call_and_close()
    gc.collect()
    gc.disable()
    try:
        before = _connections()
        await call_and_close()
        until(lambda: _connections() == before)
    finally:
        gc.enable()


def _way(driver: str, arity: str) -> Any:
    return next(way for way in WAYS[driver] if way.arity == arity)


def _connections() -> int:
    return sum(isinstance(one, ClientCalls) for one in gc.get_objects())
