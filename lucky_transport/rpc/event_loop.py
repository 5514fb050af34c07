"""A connection whose calls belong to one asyncio event loop: the loop reads it, and no thread waits for anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from lucky_transport.errors import TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls

__all__ = ["LoopCondition", "LoopReader", "is_running_here"]


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """True on the thread that runs `loop`, while it runs."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class LoopReader:
    """Has `loop` handle what comes for `calls`, until it is closed or the connection ends: `on_break` as of `calls`.

    To be made on the loop's thread.
    """

    def __init__(
        self,
        calls: ClientCalls,
        loop: asyncio.AbstractEventLoop,
        on_break: Callable[[TransportError], None] = lambda error: None,
    ) -> None:
        self._calls = calls
        self._loop = loop
        self._fd = calls.fileno()
        self._is_closed = False
        self._on_break = on_break
        on_child(self.close_after_fork)
        calls.on_break = self._broken
        loop.add_reader(self._fd, self.read)
        loop.call_soon(self.read)

    def read(self) -> None:
        """Handle what has come, and have the descriptor tell of what comes next."""
        if not self._is_closed:
            with contextlib.suppress(TransportError):  # the connection has ended, and each call knows
                self._calls.pump()
                if self._calls.arm():
                    self._loop.call_soon(self.read)

    def close(self) -> None:
        """Read no more; idempotent, from any thread, also once the connection or the loop is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._loop.is_running() or is_running_here(self._loop):
            self._loop.remove_reader(self._fd)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed by now
                self._loop.call_soon_threadsafe(self._loop.remove_reader, self._fd)

    def close_after_fork(self) -> None:
        """In a forked child: leave the loop's descriptors alone, they are the parent's."""
        self._is_closed = True

    def _broken(self, error: TransportError) -> None:
        self.close()
        self._on_break(error)


class LoopCondition:
    """What coroutines of one loop wait for: `notify` wakes all of them, and each checks again."""

    __slots__ = ("_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Wake every coroutine that waits, on the loop's thread; without effect once the loop is closed."""
        if self._loop.is_closed():
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def notify_threadsafe(self) -> None:
        """Call `notify`, from any thread."""
        if is_running_here(self._loop):
            self.notify()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no coroutine waits
                self._loop.call_soon_threadsafe(self.notify)

    async def wait(self) -> None:
        """Return after the next `notify`."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def until(self, is_ready: Callable[[], bool]) -> None:
        """Return once `is_ready()`, which is asked now and after each `notify`."""
        while not is_ready():
            await self.wait()
