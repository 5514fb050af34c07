"""Slots in which worlds advance: so many at once, whoever asks.

Rule 1: who finds none free waits for a bounded time, then gets Busy: load is told, not hidden in a queue.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy

__all__ = ["WorkerSlots"]


class WorkerSlots:
    """`count` slots; a call waits up to `patience_s` for one."""

    def __init__(self, count: int, patience_s: float) -> None:
        self._count = count
        self._patience_s = patience_s
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def one(self, deadline: Deadline) -> Generator[None]:
        """Hold a slot. Raises Busy."""
        if not self._free.acquire(timeout=min(self._patience_s, deadline.remaining_s)):
            raise Busy(f"all worker slots busy: {self._count} sessions advance at once", hint="retry later")
        try:
            yield
        finally:
            self._free.release()
