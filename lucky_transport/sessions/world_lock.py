"""A world that one thread at a time holds, while readers get snapshots of it between two ticks.

    held = False
    try:
        if held := world_lock.acquire(deadline):
            world_lock.tick(world)
            snapshot = world_lock.publish(world)
    finally:
        if held:
            world_lock.lock.release()
            world_lock.settle()

A thread that does not hold the world calls `serve_readers`, which makes a snapshot unless another thread holds it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.sessions.api import WorldSnapshot
from lucky_transport.sessions.snapshots import SnapshotCell
from lucky_transport.uninterrupted import uninterrupted
from lucky_transport.world import World

#: How many actions wait for the next tick at most.
QUEUED_ACTIONS = 16


class ActionQueue:
    """Actions that wait for a world's next tick, from any thread; false when empty.

    The newest push out the oldest: a sender that is too fast loses actions but never acts late. dropped: how many
    were pushed out so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Any] = deque(maxlen=QUEUED_ACTIONS)
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, actions: Sequence[Any]) -> int:
        """Add these actions; return how many were pushed out."""
        with self._lock:
            pushed_out = max(0, len(self._waiting) + len(actions) - QUEUED_ACTIONS)
            self._waiting.extend(actions)
            self.dropped += pushed_out
            return pushed_out

    def drain(self) -> list[Any]:
        """Remove all actions and return them, oldest first."""
        with self._lock:
            actions = list(self._waiting)
            self._waiting.clear()
            return actions


class WorldLock:
    """world: None before it is built and after it was closed; only the holder changes it.

    queue: actions for its next tick. snapshots: the newest snapshot. on_error: gets what the world raises while a
    snapshot is made for readers.
    """

    def __init__(self, on_error: Callable[[BaseException], object]) -> None:
        self.world: World | None = None
        self.queue = ActionQueue()
        self.snapshots = SnapshotCell()
        self._on_error = on_error
        self.lock = threading.Lock()
        self._discarded = False

    def acquire(self, deadline: Deadline | None) -> bool:
        """Become the holder, without waiting if there is no deadline; False if another thread held it until then."""
        timeout_s = 0.0 if deadline is None else min(deadline.remaining_s, threading.TIMEOUT_MAX)
        [held] = uninterrupted(self.lock.acquire, True, timeout_s)
        return held

    def settle(self) -> None:
        """After the release: make a snapshot for readers that asked meanwhile and close a discarded world."""
        if self.snapshots.waiting:
            self.serve_readers()
        if self._discarded:
            self.discard()

    def tick(self, world: World) -> Sequence[str]:
        """Advance the world by one tick with the actions that wait for it; return its events. For the holder."""
        if self.queue:
            world.act(self.queue.drain())
        events = world.tick()
        self.snapshots.mark_stale()
        if self.snapshots.waiting:
            self.publish(world)
        return events

    def publish(self, world: World) -> WorldSnapshot:
        """Make a snapshot of the world and give it to readers. For the holder."""
        snapshot = WorldSnapshot(world.observe(), world.ticks, world.is_over, world.result, world.score)
        self.snapshots.put(snapshot)
        return snapshot

    def serve_readers(self) -> None:
        """Make a snapshot now, unless a thread holds the world: that one does it after its tick or its release."""
        held = False
        try:
            if self.snapshots.waiting and (held := self.acquire(None)) and self.world is not None:
                self.publish(self.world)
        except BaseException as error:  # a world is foreign code and may raise anything
            self._on_error(error)
        finally:
            if held:
                self.lock.release()

    def discard(self) -> None:
        """End all waits for snapshots and close the world, now or when its holder releases it."""
        self._discarded = True
        self.snapshots.end()
        held = False
        try:
            if self.world is not None and (held := self.acquire(None)):
                self.close_world()
        finally:
            if held:
                self.lock.release()

    def close_world(self) -> None:
        """Close the world, if there is one. For the holder."""
        world, self.world = self.world, None
        if world is not None:
            run_unwaited("close of a world", world.close)
