"""Reads a shadow's stream as far as the authority's was read, and no farther.

A stream may go on for days: of each side only the first items are kept for the comparison.
"""

from __future__ import annotations

import threading
from typing import Any

from lucky_transport.errors import Cancelled
from lucky_transport.messages.images import holds_images
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Stream

__all__ = ["Follower", "most_items"]

_MOST_ITEMS, _MOST_PICTURES = 64, 8


def most_items(method: Method) -> int:
    """Return how many items of a stream are kept: fewer where they hold pictures."""
    return _MOST_PICTURES if holds_images(method.response) else _MOST_ITEMS


class Follower:
    """items: what came so far, at most `wanted`. `enough` may be called from any thread, `read` from one."""

    def __init__(self, wanted: int) -> None:
        self.items: list[Any] = []
        self._wanted = wanted
        self._stream: Stream | None = None
        self._lock = threading.Lock()

    def read(self, stream: Stream) -> bool:
        """Read until there are enough items; True when the stream ended by itself. Raises what the stream raises."""
        with self._lock:
            self._stream = stream
        try:
            while not self._has_enough():
                try:
                    self.items.append(next(stream))
                except StopIteration:
                    return True
                except Cancelled:
                    if not self._has_enough():
                        raise
        finally:
            stream.cancel()
        return False

    def enough(self, count: int) -> None:
        """Want no more than `count` items: the authority's stream was left after so many."""
        with self._lock:
            self._wanted = min(self._wanted, count)
            stream = self._stream if len(self.items) >= self._wanted else None
        if stream is not None:
            stream.cancel()

    def _has_enough(self) -> bool:
        with self._lock:
            return len(self.items) >= self._wanted
