"""Lets any thread close what other threads may be waiting in.

Descriptors are closed by the last thread that leaves: otherwise a thread could wait on a number that already means
another file. After fork() the child's copy is closed: it refuses every use and touches nothing that the parent shares.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import ClosedError


class UsageGuard:
    """`with guard:` around whatever uses the descriptors of `what`; raises ClosedError when it is closed.

    backend: the transport that its errors name.
    """

    __slots__ = ("_backend", "_lock", "_on_last_exit", "_uses", "_what", "closed", "forked")

    def __init__(self, what: str, backend: str = "shm") -> None:
        self._what = what
        self._backend = backend
        # Reentrant: a signal handler may close what its own thread is just entering.
        self._lock = threading.RLock()
        self._uses: list[None] = []
        self._on_last_exit: Callable[[], None] | None = None
        self.closed = False
        self.forked = False

    # Entering and leaving take no lock: append() and pop() are one step each. Leaving reads `_on_last_exit` after that,
    # closing reads `_uses` after setting it, so one of them sees the other.

    def __enter__(self) -> None:
        try:
            self._uses.append(None)
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
            self._uses.pop()
        finally:  # also where a signal handler raises once pop() is done
            if self._on_last_exit is not None:
                self._finish()

    def __del__(self) -> None:
        if self._on_last_exit is not None:
            self._on_last_exit()  # a signal handler raised before an exit was counted

    @property
    def is_shared(self) -> bool:
        """True while something else is inside, for what is inside itself."""
        return len(self._uses) > 1

    def _finish(self) -> None:
        """Call what `close` was given, unless something is still in use or it was called."""
        with self._lock:
            if not self._uses and self._on_last_exit is not None:
                self._on_last_exit()
                self._on_last_exit = None  # last: what a signal handler interrupts is done again by the next exit

    def close(self, on_last_exit: Callable[[], None]) -> bool:
        """Refuse every further use and call `on_last_exit` once nothing is in use; False when it was closed before.

        It is called anew by whoever enters next where a signal handler interrupted it.
        """
        with self._lock:
            if self.closed:
                return False
            self.closed = True
            self._on_last_exit = on_last_exit
        self._finish()
        return True

    def close_after_fork(self) -> bool:
        """In a forked child, where no other thread is; False when it was closed before."""
        self._lock = threading.RLock()
        was_open = not self.closed
        self.closed = True
        self.forked = self.forked or was_open
        return was_open

    def error(self) -> ClosedError:
        """Return what to raise when the guard is closed."""
        if self.forked:
            return ClosedError(
                f"{self._what} belongs to the parent process",
                backend=self._backend,
                hint="connect again after fork()",
            )
        return ClosedError(f"{self._what} is closed", backend=self._backend, hint="connect again")
