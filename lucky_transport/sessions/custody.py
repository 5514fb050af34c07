"""A world in the hands of one holder at a time, with readers who look at it in between.

    world = custody.take(deadline)
    try:
        custody.tick(world)
        seen = custody.show(world)
    finally:
        custody.leave()

Rule 1: nobody waits for the world without a deadline.
Rule 2: a reader never waits for a whole advance: the holder shows the world between two ticks when asked, and looks
        once more after he let go, so that nobody who asked in between is forgotten.
Rule 3: once discarded, the world is closed by whoever holds it last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.sessions.action_queue import ActionQueue
from lucky_transport.sessions.news import Snapshot
from lucky_transport.sessions.showcase import Showcase
from lucky_transport.world import World

__all__ = ["Custody", "Viewer"]

_log = logging.getLogger("lucky_transport")


class Viewer(Protocol):
    """Somebody who wants every look."""

    def show(self, seen: Snapshot) -> bool:
        """Take a look; False when none is wanted any more."""
        ...

    def end(self) -> None:
        """Nothing comes any more; idempotent."""
        ...


class Custody:
    """world: None before it is built and after it was closed; only its holder changes it. queue: actions for its next
    tick. on_fault: called with what a world raises while it is shown to readers.
    """

    def __init__(self, on_fault: Callable[[Exception], object]) -> None:
        self.world: World | None = None
        self.queue = ActionQueue()
        self.showcase = Showcase()
        self._viewers: tuple[Viewer, ...] = ()
        self._on_fault = on_fault
        self._lock = threading.Lock()
        self._discarded = False

    def take(self, deadline: Deadline | None) -> bool:
        """Become the holder, at once if there is no deadline; False when another one kept it until then."""
        if deadline is None:
            return self._lock.acquire(blocking=False)
        return self._lock.acquire(timeout=min(deadline.remaining_s, threading.TIMEOUT_MAX))

    def leave(self) -> None:
        """The holder lets go, and sees to readers that asked meanwhile and to a world that nobody needs any more."""
        self._lock.release()
        if self.showcase.wanted:
            self.serve_readers()
        if self._discarded:
            self.discard()

    def tick(self, world: World) -> Sequence[str]:
        """Let the world go on by one tick with the actions that wait for it; return what happened. For the holder."""
        if self.queue:
            world.act(self.queue.drain())
        events = world.tick()
        self.showcase.outdate()
        if self.showcase.wanted:
            self.show(world)
        return events

    def show(self, world: World) -> Snapshot:
        """Show the world as it is. For the holder."""
        seen = Snapshot(world.observe(), world.ticks, world.is_over, world.result, world.score)
        self.showcase.show(seen)
        for viewer in self._viewers:
            if not viewer.show(seen):
                self._viewers = tuple(each for each in self._viewers if each is not viewer)
        return seen

    @property
    def has_viewers(self) -> bool:
        """True when somebody wants every look."""
        return bool(self._viewers)

    def show_to(self, viewer: Viewer) -> None:
        """Show every look to `viewer` as well, until it ends; whoever looks next sees to it that there is one."""
        self._viewers += (viewer,)
        self.showcase.outdate()
        if self._discarded:
            viewer.end()

    def serve_readers(self) -> None:
        """Show the world now, unless somebody holds it: he shows it himself, between two ticks or when he leaves."""
        while self.showcase.wanted and self._lock.acquire(blocking=False):
            try:
                if self.world is not None:
                    self.show(self.world)
                return
            except Exception as error:  # a world is foreign code and may raise anything
                self._on_fault(error)
                return
            finally:
                self._lock.release()

    def discard(self) -> None:
        """Nobody needs the world any more: waiting readers go on, it is closed now or when its holder leaves it."""
        self._discarded = True
        self.showcase.end()
        for viewer in self._viewers:
            viewer.end()
        while self.world is not None and self._lock.acquire(blocking=False):
            try:
                self.close_world()
            finally:
                self._lock.release()

    def close_world(self) -> None:
        """Close the world, if there is one. For the holder."""
        world, self.world = self.world, None
        try:
            if world is not None:
                world.close()
        except Exception:  # a world is foreign code and may raise anything; nobody waits for this
            _log.exception("a world broke while it was closed")
