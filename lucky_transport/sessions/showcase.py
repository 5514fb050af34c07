"""The newest look at a world: one place, where a newer look replaces an older one.

Rule 1: latest wins. A reader that pauses finds the newest look, never one it missed.
Rule 2: looks are made on demand: `wanted` tells whoever holds the world that somebody waits for one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.deadline import Deadline
from lucky_transport.sessions.news import Snapshot

__all__ = ["Showcase"]


class Showcase:
    """Holds the newest snapshot for any number of readers. `wanted`: how many readers wait for a newer one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: Snapshot | None = None
        self._ended = False
        self._fresh = False
        self._shown = 0
        self.wanted = 0

    @property
    def newest(self) -> Snapshot | None:
        """What was shown last, None before the first."""
        return self._newest

    @property
    def present(self) -> Snapshot | None:
        """What was shown last, None when the world has gone on since."""
        return self._newest if self._fresh else None

    def show(self, snapshot: Snapshot) -> None:
        """Replace what is shown; every reader that waits for it goes on."""
        with self._changed:
            self._newest = snapshot
            self._fresh = True
            self._shown += 1
            self._changed.notify_all()

    def outdate(self) -> None:
        """The world has gone on unseen: the next reader needs a new look."""
        self._fresh = False

    def end(self) -> None:
        """Nothing comes any more: readers go on without."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, after_tick: int, deadline: Deadline, ask: Callable[[], None]) -> Snapshot | None:
        """Return the newest look, later than `after_tick`; None at the deadline, or when none comes any more.

        `ask` is called, once `wanted` is set, when what is shown will not do; it may `show` something at once.
        """
        with self._changed:
            if self._fresh and (found := self._later(after_tick)) is not None:
                return found
            shown = self._shown
            self.wanted += 1
        try:
            ask()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._ended or (self._shown != shown and self._is_worth_waking(after_tick)),
                    min(deadline.remaining_s, threading.TIMEOUT_MAX),
                )
                return self._later(after_tick) if self._shown != shown else None
        finally:
            with self._changed:
                self.wanted -= 1

    def _is_worth_waking(self, after_tick: int) -> bool:
        newest = self._newest
        return newest is not None and (newest.is_over or newest.ticks > after_tick)

    def _later(self, after_tick: int) -> Snapshot | None:
        newest = self._newest
        return newest if newest is not None and newest.ticks > after_tick else None
