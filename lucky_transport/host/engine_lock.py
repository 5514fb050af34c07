"""The lock of an engine: every step, bind and engine-side handler happens under it."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

from lucky_transport.uninterrupted import WaitQueue, uninterrupted

#: How long a driver yields the engine to waiting threads at most.
_YIELD_S = 0.05


class EngineLock(_thread.RLock):  # pyright: ignore[reportGeneralTypeIssues] - it can be
    """`with lock` holds the engine between two steps; leaving it is an operation of C, see `uninterrupted`.

    interrupt: asks a driver whose loop keeps the lock between steps for the engine. waiters: threads that it has to let
    in.
    """

    def __init__(self) -> None:
        self.interrupt: Callable[[], None] = nothing
        self.waiters: dict[object, None] = {}
        self._let_in = WaitQueue()

    def enter(self, timeout_s: float = -1) -> bool:
        """Take the lock; False when it was not free within `timeout_s`. The caller assigns the result in its `try`."""
        held = False
        me = object()
        try:
            [held] = uninterrupted(self.acquire, False)
            if not held:
                self.waiters[me] = None
                self.interrupt()
                [held] = uninterrupted(self.acquire, True, min(timeout_s, threading.TIMEOUT_MAX))
                self.waiters.pop(me)
                self._let_in.wake_all()
            return held
        except BaseException:
            if held:
                self.release()
            self.waiters.pop(me, None)
            raise

    def __enter__(self) -> bool:
        return self.enter()

    def yield_to_waiters(self) -> None:
        """Let threads that wait have the engine: a loop that takes the lock again at once would starve them."""
        self._let_in.wait_for(lambda: not self.waiters, _YIELD_S)


def nothing() -> None:
    pass
