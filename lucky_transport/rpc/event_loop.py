"""Connections that an asyncio event loop reads, without a thread: `LoopReader`, and what coroutines wait for."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.client import ClientCalls

#: As long as a server takes to answer at once, and less than a loop takes to wake.
_LONGEST_LOOK_NS = 50_000


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """True on the thread that runs `loop`, while it runs."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def idle_of(loop: asyncio.AbstractEventLoop) -> int:
    """Return for how many nanoseconds a look keeps nothing else of the loop waiting, as far as the loop shows that.

    It shows the callbacks that are ready and its timers, in the names of `asyncio.BaseEventLoop`; other kinds of loop
    show neither. What descriptors bring waits for that long.
    """
    shown: Any = loop
    if getattr(loop, "_ready", loop):
        return 0
    timers = shown._scheduled
    return min(_LONGEST_LOOK_NS, max(0, int((timers[0].when() - loop.time()) * 1e9))) if timers else _LONGEST_LOOK_NS


def _ignore(error: TransportError) -> None:
    pass


class LoopReader:
    """Makes `loop` handle the records of `calls` until it is closed or the connection ends.

    It is made on the loop's thread. on_break: as `ClientCalls.on_break`.
    """

    def __init__(
        self,
        calls: ClientCalls,
        loop: asyncio.AbstractEventLoop,
        on_break: Callable[[TransportError], None] = _ignore,
    ) -> None:
        self._calls = calls
        self._loop = loop
        self._fd = calls.fileno()
        self._is_closed = False
        self._next: asyncio.Handle | None = None
        self._on_break = on_break
        on_child(self.close_after_fork)
        calls.on_break = self._broken
        loop.add_reader(self._fd, self.read)
        self._next = loop.call_soon(self.read)

    def expect(self) -> None:
        """An answer is expected: where it may be there before a sleeping loop wakes, look for it in each round."""
        try:
            if self._calls.expect() and self._next is None and not self._is_closed:
                self._next = self._loop.call_soon(self.read)
        except BaseException:
            self._look_soon()
            raise

    def read(self) -> None:
        """Handle the records that are there, and see to it that this is called again with the next one."""
        try:
            if self._next is not None:
                self._next.cancel()
                self._next = None
            if not self._is_closed:
                if idle_ns := idle_of(self._loop):
                    self._calls.look(idle_ns)
                self._calls.pump()
                if self._calls.arm():
                    self._next = self._loop.call_soon(self.read)
        except TransportError:
            pass  # the connection has ended, and every call with it
        except BaseException:
            self._look_soon()
            raise

    def _look_soon(self) -> None:
        """Look again after a signal handler's exception: the peer may have been told that it need not wake us."""
        if not self._is_closed:
            self._next = self._loop.call_soon(self.read)

    def close(self) -> None:
        """Stop reading; idempotent, from any thread, also after the connection or the loop is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._next is not None:  # it holds this object until the loop's next turn, which may never come
            self._next.cancel()
            self._next = None
        if not self._loop.is_running() or is_running_here(self._loop):
            self._loop.remove_reader(self._fd)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._loop.remove_reader, self._fd)

    def close_after_fork(self) -> None:
        """In a forked child: what the loop watches with is shared with the parent; only its own table forgets us."""
        self._is_closed = True
        try:
            os.fstat(self._fd)
        except OSError:  # the pipe has closed it here, so nothing of the parent's is touched
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._fd)

    def _broken(self, error: TransportError) -> None:
        self.close()
        self._on_break(error)
        self._on_break = _ignore  # who is told may hold this object: both go without the collector of cycles


class LoopCondition:
    """What coroutines of one loop wait for: `notify` wakes all of them, and each checks again. waiters: theirs."""

    __slots__ = ("_loop", "waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Wake every waiting coroutine; called on the loop's thread, without effect once the loop is closed."""
        waiters = self.waiters
        while waiters and not self._loop.is_closed():
            if not waiters[0].done():
                with contextlib.suppress(asyncio.InvalidStateError):  # a signal handler has cancelled it just now
                    waiters[0].set_result(None)
            del waiters[0]  # not before: whom a signal handler's exception leaves here the next notice wakes

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
        self.waiters.append(waiter)
        await waiter

    async def until(self, is_ready: Callable[[], bool]) -> None:
        """Return once `is_ready()` is true; it is called now and after each `notify`."""
        while not is_ready():
            await self.wait()
