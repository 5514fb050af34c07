"""What one side of a call sent, as far as it is kept for a comparison.

A stream may go on for days: of what is beyond the limits nothing is kept.
"""

from __future__ import annotations

import time
from typing import Any

from lucky_transport_migration.recording.calls import KEPT_BYTES, KEPT_ITEMS

__all__ = ["ReceivedItems"]


class ReceivedItems:
    """items: at most `most`, in their order; the first one is kept whatever its size, where any is.

    last_ns: when the last one came (`time.perf_counter_ns`), 0 before the first. dropped: items that a stream skipped.
    """

    def __init__(self, most: int = KEPT_ITEMS) -> None:
        self.items: list[Any] = []
        self.last_ns = 0
        self.dropped = 0
        self._most = most
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """True when no more is kept."""
        return len(self.items) >= self._most or self._bytes >= KEPT_BYTES

    def add(self, item: Any) -> None:
        """Keep one more item, unless there are too many."""
        if self.is_full:
            return
        self.items.append(item)
        self.last_ns = time.perf_counter_ns()
        if isinstance(item, bytes):
            self._bytes += len(item)
