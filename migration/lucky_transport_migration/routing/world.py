"""Whether the world stood still while both transports answered: if not, their answers may differ by right.

What this client does is seen (steps, calls that change something), from the begin of it to its end. What others do to
the engine, or a free-running engine by itself, is not.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from lucky_transport.messages.methods import Effect, Method

__all__ = ["WorldChanges"]


class WorldChanges:
    """Counts what changes the world behind one transport. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._changes = 0

    def begin(self) -> None:
        """Something that changes the world begins."""
        with self._lock:
            self._under_way += 1
            self._changes += 1

    def end(self) -> None:
        """It has ended."""
        with self._lock:
            self._under_way -= 1

    @contextmanager
    def touched_by(self, method: Method) -> Generator[None]:
        """Count a call of `method` while it runs, unless that changes nothing."""
        if method.effect is Effect.READ:
            yield
            return
        self.begin()
        try:
            yield
        finally:
            self.end()

    def mark(self) -> int:
        """Return what to give `stood_still` later; negative while something is under way."""
        with self._lock:
            return -1 if self._under_way else self._changes

    def stood_still(self, mark: int) -> bool:
        """True when nothing has changed the world since that mark."""
        return mark == self._changes
