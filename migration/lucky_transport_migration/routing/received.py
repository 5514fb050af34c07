"""What one side of a call sent, as far as it is kept for a comparison.

A stream may go on for days: what is beyond the limits is counted, and only a digest of it is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lucky_transport_migration.compare.items import ItemDigest
from lucky_transport_migration.recording.entries import KEPT_BYTES, KEPT_ITEMS


class ReceivedItems:
    """items: at most `most`, in their order; the first one is kept whatever its size, where any is. digest: makes the
    digest of the rest; without it, or where it returns None, that is not looked at.

    first_ns, last_ns: when the first and last one came (`time.perf_counter_ns`), 0 before the first. dropped: items
    that a stream skipped. more: how many came beyond those that are kept. has_ended: no more will come.
    """

    def __init__(self, most: int = KEPT_ITEMS, digest: Callable[[], ItemDigest | None] | None = None) -> None:
        self.items: list[Any] = []
        self.first_ns = self.last_ns = 0
        self.dropped = 0
        self.more = 0
        self.has_ended = False
        self._most = most
        self._bytes = 0
        self._make_digest = digest
        self._digest: ItemDigest | None = None

    @property
    def is_full(self) -> bool:
        """True when no more is kept."""
        return len(self.items) >= self._most or self._bytes >= KEPT_BYTES

    @property
    def wants_more(self) -> bool:
        """True when what comes next says something: there is room, or a digest is made of the rest."""
        is_digested = self._make_digest is not None and bool(self.items) and isinstance(self.items[0], bytes)
        return is_digested or not self.is_full

    @property
    def rest(self) -> str:
        """The digest of what came beyond the items, "" where none is known."""
        return "" if self._digest is None else self._digest.value

    def add(self, item: Any) -> None:
        """Keep one more item, or count it where there are too many."""
        if not self.wants_more:
            return
        self.last_ns = time.perf_counter_ns()
        self.first_ns = self.first_ns or self.last_ns
        if not self.is_full:
            self.items.append(item)
            self._bytes += len(item) if isinstance(item, bytes) else 0
            return
        if self._digest is None and self._make_digest is not None:
            with suppress(Exception):  # of a foreign description, or a wrong rule: a caller waits for its item
                self._digest = self._make_digest()
        if self._digest is None:
            self._make_digest = None
            return
        self.more += 1
        self._digest.add(item)
