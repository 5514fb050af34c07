"""Actions that wait for a world's next tick.

Rule 1: at most 16 wait; the newest push out the oldest: a sender who is too fast loses actions, but never acts late.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

__all__ = ["QUEUED_ACTIONS", "ActionQueue"]

#: Actions that wait at most.
QUEUED_ACTIONS = 16


class ActionQueue:
    """For any thread. dropped: actions that were pushed out so far. False when empty."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Any] = deque(maxlen=QUEUED_ACTIONS)
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, actions: Sequence[Any]) -> int:
        """Let these actions wait; return how many were pushed out."""
        with self._lock:
            pushed_out = max(0, len(self._waiting) + len(actions) - QUEUED_ACTIONS)
            self._waiting.extend(actions)
            self.dropped += pushed_out
            return pushed_out

    def drain(self) -> list[Any]:
        """Return all that wait, oldest first; none waits afterwards."""
        with self._lock:
            actions = list(self._waiting)
            self._waiting.clear()
            return actions
