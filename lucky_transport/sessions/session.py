"""One session: a world with an id and a life of its own.

Rule 1: each call either holds the world (`build`, `restart`, `advance`, `run_for`) or never waits for who does.
Rule 2: a world that raises ends its session: what it is worth after that, nobody knows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout, SessionEnded, TransportError, to_wire_error
from lucky_transport.sessions.custody import Custody
from lucky_transport.sessions.makers import WorldMaker
from lucky_transport.sessions.news import Advanced, SessionState, Snapshot, nothing_newer
from lucky_transport.sessions.phase import ENDED, Event, Phase, following
from lucky_transport.sessions.worker_slots import WorkerSlots
from lucky_transport.world import World

__all__ = ["Session"]


class Session:
    """See the module. maker: makes its world. owner: the client that it ends with, "" for none. engine: the engine's
    name, for errors. slots: in which its world advances.

    used_at: when somebody last asked for it, on the monotonic clock in seconds. rate_hz: how it runs freely, see
    `SessionState`; set by the pacer.
    """

    def __init__(self, session_id: str, maker: WorldMaker, engine: str, slots: WorkerSlots, owner: str = "") -> None:
        self.id = session_id
        self.maker = maker
        self.owner = owner
        self.used_at = time.monotonic()
        self.rate_hz: float | None = None
        self.phase = Phase.CREATING
        self.custody = Custody(self._fail)
        self._engine = engine
        self._slots = slots
        self._is_built = threading.Event()
        self._phase_lock = threading.Lock()
        self._error = ""

    @property
    def has_ended(self) -> bool:
        """True when its world goes on no more: it is over, failed or destroyed."""
        return self.phase in ENDED

    def state(self) -> SessionState:
        """Return where it stands; never waits."""
        world = self.custody.world
        dropped = self.custody.queue.dropped
        if world is None:
            return SessionState(self.id, self.maker.map_name, self.phase, error=self._error, dropped=dropped)
        return SessionState(
            *(self.id, self.maker.map_name, self.phase, world.ticks, world.is_over, world.result, world.score),
            *(self._error, dropped, self.rate_hz),
        )

    def build(self, seed: int | None) -> None:
        """Build the world; takes as long as that takes. What fails is told by `state` and by every later call."""
        try:
            with self._holding(None):
                if self.phase is Phase.CREATING:
                    self.custody.world = self.maker.make(seed)
                    self.custody.show(self.custody.world)
                self._go(Event.BUILT)
        except TransportError:
            pass  # kept in `_error`
        finally:
            self._is_built.set()

    def restart(self, seed: int | None, deadline: Deadline) -> Snapshot:
        """See `Sessions.restart`."""
        with self._world(deadline) as world:
            self.custody.queue.drain()
            if not world.restart(seed):
                self.custody.close_world()
                world = self.custody.world = self.maker.make(seed)
            self._go(Event.REBUILT)
            return self.custody.show(world)

    def act(self, actions: Sequence[Any]) -> int:
        """See `Sessions.act`."""
        self.check_alive()
        pushed_out = self.custody.queue.put(actions)
        self._go(Event.BEGIN)
        return pushed_out

    def advance(
        self, ticks: int, actions: Sequence[Any], until: Callable[[Sequence[str], bool], str], deadline: Deadline
    ) -> Advanced:
        """See `Sessions.advance`; `until` is called after each tick, see `Watch`."""
        with self._world(deadline) as world:
            if actions:
                world.act(actions)
            start, reason = world.ticks, ""
            for _ in range(ticks):
                if world.is_over or reason:
                    break
                reason = until(self._tick(world), world.is_over)
                self.check_alive()
            done = world.ticks - start
            still = None if done or actions else self.custody.showcase.present
            seen = still or self.custody.show(world)
            return Advanced(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score, done, reason)

    def run_for(self, seconds: float) -> bool:
        """Take one turn of free running: a tick, and more while less than `seconds` have passed.

        False when there was nothing to do: somebody else holds the world, or it is not built, or has ended.
        """
        if not self.custody.take(None):
            return False
        try:
            with self._guarded():
                world = self.custody.world
                if world is None or self.has_ended:
                    return False
                end = time.monotonic() + seconds
                self._tick(world)
                while not self.has_ended and self.rate_hz is not None and time.monotonic() < end:
                    self._tick(world)
                if self.custody.has_viewers or world.is_over:
                    self.custody.show(world)
                return True
        except TransportError:
            return False  # kept in `_error`
        finally:
            self.custody.leave()

    def latest(self, after_tick: int, deadline: Deadline) -> Snapshot:
        """See `Sessions.latest`."""
        self._await_built(deadline)
        self._check_can_show(after_tick)
        found = self.custody.showcase.wait(after_tick, deadline, self.custody.serve_readers)
        if found is None:
            self._check_can_show(after_tick)
            raise nothing_newer(self.id, after_tick, deadline)
        return found

    def destroy(self) -> None:
        """End the session: calls that wait for it end at once, one that ticks after its present tick. Idempotent."""
        self._go(Event.DESTROY)
        self.rate_hz = None
        self._is_built.set()
        self.custody.discard()

    def check_alive(self) -> None:
        """Raise SessionEnded when it was destroyed or has failed."""
        if self.phase is Phase.GONE:
            raise SessionEnded(f"session {self.id} was destroyed", hint="create another one")
        if self.phase is Phase.FAILED:
            raise SessionEnded(f"session {self.id} failed: {self._error}", hint="create another one")

    def _check_can_show(self, after_tick: int) -> None:
        """Raise SessionEnded when no look after that tick can come any more."""
        self.check_alive()
        newest = self.custody.showcase.newest
        if newest is not None and newest.is_over and newest.ticks <= after_tick:
            raise SessionEnded(f"session {self.id} is over since tick {newest.ticks}: there is nothing newer to see")

    def _tick(self, world: World) -> Sequence[str]:
        self._go(Event.BEGIN)
        events = self.custody.tick(world)
        if world.is_over:
            self._go(Event.OVER)
        return events

    @contextmanager
    def _world(self, deadline: Deadline) -> Generator[World]:
        """Hold the world, once it is built, and a worker slot. Raises PeerTimeout, SessionEnded, Busy."""
        self._await_built(deadline)
        with self._holding(deadline), self._slots.one(deadline):
            self.check_alive()
            assert self.custody.world is not None, "it is built and alive"
            yield self.custody.world

    @contextmanager
    def _holding(self, deadline: Deadline | None) -> Generator[None]:
        if not self.custody.take(deadline):
            timeout_s = deadline.timeout_s if deadline is not None else 0.0
            raise PeerTimeout(
                f"session {self.id} was in use for {timeout_s:g} s", hint="one call after another advances it"
            )
        try:
            with self._guarded():
                yield
        finally:
            self.custody.leave()

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """What a world raises ends the session, told as EngineFailed; what we raise ourselves passes through."""
        try:
            yield
        except (Busy, PeerTimeout, SessionEnded):
            raise
        except Exception as error:  # a world is foreign code and may raise anything
            raise self._fail(error) from error

    def _fail(self, error: Exception) -> TransportError:
        failure = to_wire_error(self._engine, f"session {self.id}", error)
        self._error = str(failure)
        self._go(Event.FAILED)
        self.custody.discard()
        return failure

    def _await_built(self, deadline: Deadline) -> None:
        if not self._is_built.is_set() and not self._is_built.wait(min(deadline.remaining_s, threading.TIMEOUT_MAX)):
            raise PeerTimeout(
                f"session {self.id} was not ready within {deadline.timeout_s:g} s", hint="raise the timeout"
            )

    def _go(self, event: Event) -> None:
        with self._phase_lock:
            self.phase = following(self.phase, event)
