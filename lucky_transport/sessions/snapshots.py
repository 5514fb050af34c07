"""The newest snapshot of a world, for readers that wait for it, and its form as a message."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.messages import SessionSnapshot
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.uninterrupted import WaitQueue
from lucky_transport.world import Worlds


def to_message(snapshot: WorldSnapshot) -> SessionSnapshot:
    """Return the snapshot as a message. Raises TypeError or ValueError for an observation that cannot be encoded."""
    return SessionSnapshot(
        encode(snapshot.observation), snapshot.ticks, snapshot.is_over, snapshot.result, snapshot.score
    )


def from_message(message: SessionSnapshot, worlds: Worlds) -> WorldSnapshot:
    """Return the message as a snapshot. Raises RemoteProtocolError for an observation that cannot be decoded."""
    observation = decode(worlds.observation, message.observation)
    return WorldSnapshot(observation, message.ticks, message.is_over, message.result, message.score)


class SnapshotCell:
    """Holds the newest snapshot for any number of readers: latest wins, what a slow reader missed is gone.

    Snapshots are made on demand: while `waiting` readers wait, the thread that holds the world makes one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = WaitQueue()
        self._newest: WorldSnapshot | None = None
        self._ended = False
        self._is_current = False
        self._puts = 0
        self.waiting: dict[object, None] = {}

    @property
    def newest(self) -> WorldSnapshot | None:
        """The snapshot put last, None before the first."""
        return self._newest

    @property
    def current(self) -> WorldSnapshot | None:
        """The snapshot put last, None if the world has advanced since."""
        return self._newest if self._is_current else None

    def put(self, snapshot: WorldSnapshot) -> None:
        """Replace the newest snapshot and wake the readers that wait for it."""
        with self._lock:
            self._newest = snapshot
            self._is_current = True
            self._puts += 1
        self._readers.wake_all()

    def mark_stale(self) -> None:
        """Note that the world has advanced: the next reader needs a new snapshot."""
        self._is_current = False

    def end(self) -> None:
        """Wake all readers: no more snapshots come."""
        self._ended = True
        self._readers.wake_all()

    def wait(self, after_tick: int, deadline: Deadline, request: Callable[[], None]) -> WorldSnapshot | None:
        """Return the newest snapshot after `after_tick`; None at the deadline, or when no more come.

        `request` is called, with this reader among `waiting`, when a new snapshot is needed; it may `put` one at once.
        """
        me = object()
        try:
            with self._lock:
                if self._is_current and (found := self._later(after_tick)) is not None:
                    return found
                puts = self._puts
                self.waiting[me] = None
            request()
            self._readers.wait_for(
                lambda: self._ended or (self._puts != puts and self._is_worth_waking(after_tick)), deadline.remaining_s
            )
            with self._lock:
                return self._later(after_tick) if self._puts != puts else None
        finally:
            self.waiting.pop(me, None)

    def _is_worth_waking(self, after_tick: int) -> bool:
        newest = self._newest
        return newest is not None and (newest.is_over or newest.ticks > after_tick)

    def _later(self, after_tick: int) -> WorldSnapshot | None:
        newest = self._newest
        return newest if newest is not None and newest.ticks > after_tick else None
