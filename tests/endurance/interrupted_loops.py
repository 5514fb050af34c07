"""The kinds of work of `interrupts` that an event loop does: a task each time, on one loop and one connection.

A task is cancelled, either at a random turn of its loop or by a signal handler between any two bytecodes, which is how
`asyncio.run` has Ctrl-C end a program. (What a handler raises costs asyncio callbacks of its own, and calls of gRPC
hang after that as well.) A stream that the task was reading is over then, over gRPC as over ours; the next task opens
another one.
"""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from random import Random
from typing import Any

from lucky_transport import api
from lucky_transport.messages.methods import method

DEADLINE_S = 30.0
#: Items of a stream that nobody reads to its end.
_MANY = 1 << 20
#: The request for them, as a stub encodes it: field 2 is 1 << 20.
_MANY_ITEMS = b"\x10\x80\x80\x40"
#: A call is over after fewer turns of its loop than this, as a rule.
_TURNS = 60
_LONGEST_S = 0.004


#: The echo engine answers it with the state that it was given.
SET_STATE = method("/lucky_transport.v1.StateService/SetState")


def long_state(number: int) -> bytes:
    """Return message `number` of those that lie beside a ring: no two in a row are alike, or of one length."""
    return bytes([number % 251]) * (300_000 + 70_001 * (number % 20))


def long_messages(number: int) -> tuple[bytes, bytes]:
    """Return the request of SetState with that state, and its answer, as a stub encodes them."""
    state, length = long_state(number), b""
    left = len(state)
    while left > 127:
        length += bytes([left % 128 + 128])
        left //= 128
    return b"\x12" + length + bytes([left]) + state, b"\x0a" + length + bytes([left]) + state


class LoopWork:
    """Work that `once` does, each time in a task of its own of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, once: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._loop = loop
        self._once = once

    def __call__(self) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self._once(), DEADLINE_S))

    def cancelled_after(self, turns: int) -> None:
        """Do it, and cancel the task after so many turns of the loop, wherever it is then."""

        async def turn(task: asyncio.Task[Any]) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

        self._loop.run_until_complete(self._ended(turn))

    def cancelled_by_signal(self, after_s: float) -> None:
        """Do it until a signal handler cancels its task."""
        is_over = False

        async def again(task: asyncio.Task[Any]) -> None:
            nonlocal is_over

            def handler(*_: Any) -> None:
                nonlocal is_over
                is_over = True
                task.cancel()
                self._loop.call_soon_threadsafe(lambda: None)  # wakes the loop

            signal.signal(signal.SIGALRM, handler)
            if after_s:
                signal.setitimer(signal.ITIMER_REAL, after_s)

        while not is_over:
            self._loop.run_until_complete(self._ended(again))
            after_s = 0.0

    async def _ended(self, cancels: Callable[[asyncio.Task[Any]], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(self._once())
        await cancels(task)
        await asyncio.wait([task], timeout=DEADLINE_S)
        assert task.done(), "it outlives its cancellation"
        if not task.cancelled():
            task.result()


def cancel(work: LoopWork, times: int, moments: Random) -> int:
    """Do the work and cancel it so many times, by turns of the loop and by signals; do it twice after each."""
    before = signal.getsignal(signal.SIGALRM)
    try:
        for number in range(times):
            if number % 2:
                work.cancelled_after(moments.randrange(_TURNS))
            else:
                work.cancelled_by_signal(moments.uniform(1e-6, _LONGEST_S))
            work()
            work()
    finally:
        signal.signal(signal.SIGALRM, before)
    return 0


#: What does some work once; on an event loop it is awaited.
Once = Callable[[], Any]


def on_a_loop(opened: Callable[[str], Any]) -> Callable[..., Generator[LoopWork]]:
    """Return what yields the work of `opened`, an asynchronous generator of one coroutine function."""

    def work(endpoint: str) -> Generator[LoopWork]:
        loop = asyncio.new_event_loop()
        try:
            context = contextlib.asynccontextmanager(opened)(endpoint)
            once = loop.run_until_complete(context.__aenter__())
            try:
                yield LoopWork(loop, once)
            finally:
                loop.run_until_complete(context.__aexit__(None, None, None))
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    return work


async def _unary(endpoint: str) -> AsyncIterator[Once]:
    numbers = itertools.count(1)
    async with api.connect_async(endpoint, command_timeout_s=DEADLINE_S) as opened:
        client: Any = opened

        async def ask() -> None:
            number = next(numbers) % 1000
            assert (await client.lidar.get_lidar_beam_count(sensor=number)).beams == number

        yield ask


async def _long(endpoint: str) -> AsyncIterator[Once]:
    from lucky_transport_stubs import aio_channel

    numbers = itertools.count(1)
    async with aio_channel(endpoint) as channel:
        unary: Any = channel.unary_unary("/lucky_transport.v1.StateService/SetState")

        async def ask() -> None:
            request, answer = long_messages(next(numbers))
            assert await unary(request, timeout=DEADLINE_S) == answer

        yield ask


async def _stream(endpoint: str) -> AsyncIterator[Once]:
    async with api.connect_async(endpoint) as opened:
        client: Any = opened
        yield _reads(lambda: client.agent.stream_policy_slot_state(slot_id=_MANY), lambda item: item.slot_id)


async def _images(endpoint: str) -> AsyncIterator[Once]:
    async with api.connect_async(endpoint) as opened:
        client: Any = opened
        yield _reads(lambda: client.camera.stream_camera("front"), lambda item: item.frame_number)


async def _stub_stream(endpoint: str) -> AsyncIterator[Once]:
    from lucky_transport_stubs import aio_channel

    async with aio_channel(endpoint) as channel:
        many: Any = channel.unary_stream("/hazel.rpc.AgentService/StreamPolicySlotState")
        yield _reads(lambda: aiter(many(_MANY_ITEMS)), len, in_order=False)


def _reads(open_stream: Callable[[], Any], number_of: Callable[[Any], int], *, in_order: bool = True) -> Once:
    """Return what reads the next items of a stream, of another one when the reading of the last was interrupted."""
    stream: Any = None
    last = -1

    async def read() -> None:
        nonlocal stream, last
        if stream is None:
            stream, last = open_stream(), -1
        reading, stream = stream, None
        for _ in range(2):
            number = number_of(await anext(reading))
            assert not in_order or number > last, f"{number} came after {last}"
            last = number
        stream = reading

    return read


#: Kind of work -> the engine, its endpoint's scheme, and what yields the work.
LOOP_KINDS: dict[str, tuple[str, str, Callable[[str], Generator[LoopWork]]]] = {
    "aio unary": ("echo", "shm", on_a_loop(_unary)),
    "aio stream": ("echo", "shm", on_a_loop(_stream)),
    "aio images": ("echo", "shm", on_a_loop(_images)),
    "aio stub long": ("echo", "shm", on_a_loop(_long)),
    "aio stub stream": ("echo", "shm", on_a_loop(_stub_stream)),
    "grpc aio unary": ("echo", "grpc", on_a_loop(_unary)),
    "grpc aio stream": ("echo", "grpc", on_a_loop(_stream)),
}
