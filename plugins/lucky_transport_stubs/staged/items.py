"""The messages of one call, as many as are kept for a comparison.

A stream may go on for days: of what is beyond the limits nothing is kept.
"""

from __future__ import annotations

import time

__all__ = ["RecordedMessages"]

_MOST_ITEMS = 256
_MOST_BYTES = 16 << 20


class RecordedMessages:
    """Messages as bytes, in their order. last_ns: when the last one came (`time.perf_counter_ns`), 0 before the first.

    is_full: no more are kept; the first one always is.
    """

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.is_full = False
        self.last_ns = 0
        self._bytes = 0

    def add(self, item: bytes) -> None:
        """Keep one more message, unless there are too many."""
        if self.is_full:
            return
        self.kept.append(item)
        self.last_ns = time.perf_counter_ns()
        self._bytes += len(item)
        self.is_full = len(self.kept) >= _MOST_ITEMS or self._bytes >= _MOST_BYTES
