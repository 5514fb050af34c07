"""Who is inside: lets any thread close what others may be waiting in.

Rule 1: descriptors are closed by the last one out, so that no thread ever waits on a number that means another file.
Rule 2: coming and going take no lock: appending to a list and popping from it are one step each. Who goes looks at
        `_last_out` after that, who closes looks who is inside after setting it; so one of them sees the other.
Rule 3: the lock is re-entrant: a signal handler may close what its own thread is just entering.
Rule 4: after fork() the child's copy is closed: it refuses everything and touches nothing that the parent shares.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import ClosedError

__all__ = ["UsageGuard"]


class UsageGuard:
    """`with gate:` around whatever uses the descriptors of `what`; raises ClosedError when it is closed.

    backend: the transport that its errors name.
    """

    __slots__ = ("_backend", "_inside", "_last_out", "_lock", "_what", "closed", "forked")

    def __init__(self, what: str, backend: str = "shm") -> None:
        self._what = what
        self._backend = backend
        self._lock = threading.RLock()
        self._inside: list[None] = []
        self._last_out: Callable[[], None] | None = None
        self.closed = False
        self.forked = False

    def __enter__(self) -> None:
        try:
            self._inside.append(None)
        except MemoryError:
            raise
        except BaseException:  # a signal handler's, which runs once append() is done: `with` then leaves nothing
            self.__exit__()
            raise
        if self.closed:
            self.__exit__()
            raise self.error()

    def __exit__(self, *error: Any) -> None:
        try:
            self._inside.pop()
        finally:  # also where a signal handler raises once pop() is done
            if self._last_out is not None:
                self._go_last()

    def _go_last(self) -> None:
        """Do what the last one out has to do, unless somebody is inside or it was done."""
        with self._lock:
            if self._inside or self._last_out is None:
                return
            last_out, self._last_out = self._last_out, None
        last_out()

    def close(self, last_out: Callable[[], None]) -> bool:
        """Let nobody in any more and have `last_out` called when nobody is inside; False when it was closed before."""
        with self._lock:
            if self.closed:
                return False
            self.closed = True
            self._last_out = last_out
        self._go_last()
        return True

    def close_after_fork(self) -> bool:
        """In a forked child, where no other thread is; False when it was closed before."""
        self._lock = threading.RLock()
        was_open = not self.closed
        self.closed = True
        self.forked = self.forked or was_open
        return was_open

    def error(self) -> ClosedError:
        """Return what to raise when the gate is closed."""
        if self.forked:
            return ClosedError(
                f"{self._what} belongs to the parent process",
                backend=self._backend,
                hint="connect again after fork()",
            )
        return ClosedError(f"{self._what} is closed", backend=self._backend, hint="connect again")
