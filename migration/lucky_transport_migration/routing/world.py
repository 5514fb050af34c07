"""Whether the world may have changed between two answers: then neither a difference nor an equality says anything.

Only calls and steps of this process are seen, from their begin to their end; not what an engine does by itself or for
others.
"""

from __future__ import annotations

import threading

__all__ = ["WorldChanges"]


class WorldChanges:
    """The world behind one target: counts what may change it. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a finalizer may end calls in the middle of anything
        self._under_way = 0
        self._changes = 0

    def begin(self) -> None:
        """Something that may change it begins."""
        with self._lock:
            self._under_way += 1
            self._changes += 1

    def end(self) -> None:
        """It has ended."""
        with self._lock:
            self._under_way -= 1

    def mark(self) -> int:
        """Return what to give `stood_still` later; negative while a change is under way."""
        with self._lock:
            return -1 if self._under_way else self._changes

    def stood_still(self, mark: int) -> bool:
        """Return True when nothing has changed the world since that mark, and nothing was changing it then."""
        return mark == self._changes
