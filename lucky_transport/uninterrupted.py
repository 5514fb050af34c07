"""What a signal handler that raises cannot leave half done.

A handler runs between two bytecodes: also after a call that took a lock and before the `try` that releases it, and at
the entry of a Python function that would release it. It does not run between the step of an iterator and the assignment
of its item, nor around `with lock` for a lock of C (`threading.Lock`, `RLock`; a `Condition` or an `Event` is Python).
CPython 3.14 alone runs one there, too (docs/reference/limits.md). Since 3.12 `with` does not cover where an `if` or
`while` goes back to the head of its loop.
So what waits for a lock with a limit, or does not wait, unpacks it:

    held = False
    try:
        [held] = uninterrupted(lock.acquire, True, timeout_s)
        ...
    finally:
        if held:
            lock.release()

Where each call does so, one iterator that never ends serves all of them, for less: a take assigns its next item.

    self._attempts = map(lock.acquire, repeat(False))
    ...
        for held in self._attempts:
            break

A wake-up that a handler prevents is lost: a wait for another thread of this process looks again every `RECHECK_S`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from time import CLOCK_MONOTONIC, clock_gettime
from typing import Any, TypeVar

R = TypeVar("R")

RECHECK_S = 0.25


def uninterrupted(function: Callable[..., R], *arguments: Any) -> Iterator[R]:
    """Return an iterator over one item: what `function` returns for these arguments, at least one. It is one of C, or
    undoes by itself what it has begun.
    """
    return map(function, *zip(arguments))


def open_gate(gate: Any) -> bool:
    """Release a lock that serves as a gate, whichever thread holds it; False when it was open."""
    try:
        gate.release()
    except RuntimeError:
        return False
    return True


def start_thread(thread: threading.Thread) -> None:
    """Start the thread; raises RuntimeError where none can be.

    What a signal handler raises comes out as it is. `Thread.start` takes it for a refusal, and fails with a KeyError
    where it then forgets a thread that runs already.
    """
    try:
        thread.start()
    except KeyError as error:
        raise (error.__context__ or error) from None


class WaitQueue:
    """Threads that wait until something is so: `threading.Condition` without its lock."""

    def __init__(self) -> None:
        self._gates: dict[Any, None] = {}

    def wait_for(self, is_so: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until `is_so()`; False when it is not within `timeout_s`."""
        end_s = math.inf if timeout_s is None else clock_gettime(CLOCK_MONOTONIC) + timeout_s
        gate = threading.Lock()
        gate.acquire()
        try:
            self._gates[gate] = None
            while not is_so():
                left_s = end_s - clock_gettime(CLOCK_MONOTONIC)
                if left_s <= 0:
                    return False
                gate.acquire(timeout=min(left_s, RECHECK_S))
            return True
        finally:
            self._gates.pop(gate, None)

    def wake_all(self) -> None:
        """Have all of them look again."""
        for gate in tuple(self._gates):
            open_gate(gate)


class Latch(WaitQueue):
    """An event that happens once: `threading.Event` without `clear`."""

    is_set = False

    def set(self) -> None:
        """Let all waiting threads go on; idempotent."""
        self.is_set = True
        self.wake_all()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set; False when it is not within `timeout_s`."""
        return self.is_set or self.wait_for(lambda: self.is_set, timeout_s)
