"""Whether the world may have changed between two answers: then neither a difference nor an equality says anything.

Only calls and steps of this process are seen, from their begin to their end; not what an engine does by itself or for
others.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial


class WorldChanges:
    """The world behind one target: counts what may change it. Safe to use from any thread.

    A change is an object. It has ended at the latest when nobody holds that object any more, as after a signal handler
    that raised.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a finalizer may end calls in the middle of anything
        self._under_way: dict[int, weakref.ref[object]] = {}
        self._changes = 0

    def begin(self, change: object) -> None:
        """Something that may change it begins."""
        key = id(change)
        self._under_way[key] = weakref.ref(change, partial(self._under_way.pop, key))
        with self._lock:
            self._changes += 1

    def end(self, change: object) -> None:
        """It has ended. Idempotent."""
        self._under_way.pop(id(change), None)

    def mark(self) -> int:
        """Return what to give `stood_still` later; negative while a change is under way."""
        changes = self._changes
        return -1 if self._under_way else changes

    def stood_still(self, mark: int) -> bool:
        """Return True when nothing has changed the world since that mark, and nothing was changing it then."""
        return mark == self._changes
