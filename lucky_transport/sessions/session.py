"""One session: a world with an id and a life cycle of its own, and the worker slots in which worlds advance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout, SessionEnded, TransportError, is_interruption, to_wire_error
from lucky_transport.messages import SessionStatus
from lucky_transport.sessions.api import AdvanceResult, WorldSnapshot, nothing_newer
from lucky_transport.sessions.phase import ENDED, Phase, SessionEvent, following
from lucky_transport.sessions.recording import WorldFactory
from lucky_transport.sessions.world_lock import WorldLock
from lucky_transport.uninterrupted import Latch, uninterrupted
from lucky_transport.world import World

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What the sessions of one engine may use.

    sessions: how many there may be. builders: worlds built at once. slots: sessions advanced at once on demand.
    slot_timeout_s: how long a call waits for a slot before it gets Busy. idle_s: how long after its last call a
    session is destroyed. sweep_s: how often that is checked.
    """

    sessions: int = 1024
    builders: int = 4
    slots: int = 8
    slot_timeout_s: float = 5.0
    idle_s: float = 300.0
    sweep_s: float = 30.0


class WorkerSlots:
    """How many worlds advance at once; overload is reported as Busy, not hidden in a queue."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._free: SimpleQueue[bool] = SimpleQueue()
        for _ in range(limits.slots):
            self._free.put(True)

    def hold(self, deadline: Deadline, work: Callable[[], R]) -> R:
        """Return what `work` returns, which holds a slot. Raises Busy if none is free within `slot_timeout_s`."""
        held = False
        try:
            [held] = uninterrupted(self._free.get, True, min(self._limits.slot_timeout_s, deadline.remaining_s))
            return work()
        except Empty:
            if held:
                raise
            text = f"all worker slots busy: {self._limits.slots} sessions advance at once"
            raise Busy(text, hint="retry later") from None
        finally:
            if held:
                self._free.put(True)


class InterruptCheck:
    """Decides after each tick whether an advance ends early.

    interrupts: the events that end it, checked every `check_every` ticks and at the end. is_cancelled: True when no
    caller waits for the result any more.
    """

    def __init__(
        self,
        interrupts: Collection[str],
        check_every: int,
        deadline: Deadline,
        is_cancelled: Callable[[], bool] | None,
    ) -> None:
        self._interrupts = frozenset(interrupts)
        self._check_every = check_every
        self._deadline = deadline
        self._is_cancelled = is_cancelled
        self._ticks = 0
        self._happened: list[str] = []

    def __call__(self, events: Sequence[str], is_over: bool) -> str:
        """Return the first interrupt among the events so far, "" to go on. Raises PeerTimeout."""
        self._ticks += 1
        if self._interrupts:
            self._happened += events
            if is_over or self._ticks % self._check_every == 0:
                found = next((name for name in self._happened if name in self._interrupts), "")
                self._happened.clear()
                if found:
                    return found
        if self._deadline.expired or (self._is_cancelled is not None and self._is_cancelled()):
            raise PeerTimeout(
                f"an advance did {self._ticks} ticks within {self._deadline.timeout_s:g} s and was to do more",
                hint="ask for fewer ticks at once, or raise the timeout",
            )
        return ""


class Session:
    """A method either holds the world (`build`, `restart`, `advance`, `run_for`) or never waits for its holder.

    A world that raises ends its session: its state is undefined from then on. factory: makes the world. owner: the
    client whose leaving ends the session, "" for none. engine: the engine's name, for errors. used_at: the time of the
    last call, on the monotonic clock in seconds. rate_hz: see `SessionStatus`; set by the scheduler.
    """

    def __init__(
        self, session_id: str, factory: WorldFactory, engine: str, slots: WorkerSlots, owner: str = ""
    ) -> None:
        self.id = session_id
        self.factory = factory
        self.owner = owner
        self.used_at = time.monotonic()
        self.rate_hz: float | None = None
        self.phase = Phase.CREATING
        self.world_lock = WorldLock(self._fail)
        self._engine = engine
        self._slots = slots
        self._is_built = Latch()
        self._phase_lock = threading.Lock()
        self._error = ""

    @property
    def has_ended(self) -> bool:
        """True when the world does not advance any more: it is over, failed or destroyed."""
        return self.phase in ENDED

    def state(self) -> SessionStatus:
        """Return the session's status; never waits."""
        status = SessionStatus(
            self.id, self.factory.map_name, self.phase, error=self._error, dropped=self.world_lock.queue.dropped
        )
        if (world := self.world_lock.world) is not None:
            status.ticks, status.is_over = world.ticks, world.is_over
            status.result, status.score = world.result, world.score
            status.rate_hz = self.rate_hz
        return status

    def build(self, seed: int | None) -> None:
        """Build the world. An error shows in `state`, and every later call raises it."""

        def make() -> None:
            if self.phase is Phase.CREATING:
                self.world_lock.world = self._ask(self.factory.make, seed)
            self._go(SessionEvent.BUILT)

        try:
            self._holding(None, make)
        except TransportError as error:
            self._fail(error)  # nothing but this builds the world
        finally:
            self._is_built.set()

    def restart(self, seed: int | None, deadline: Deadline) -> WorldSnapshot:
        """Start the world over in place, or as a new world, and return its first snapshot."""

        def start_over(world: World) -> WorldSnapshot:
            self.world_lock.queue.drain()
            if not self._ask(world.restart, seed):
                self.world_lock.close_world()
                world = self.world_lock.world = self._ask(self.factory.make, seed)
            self._go(SessionEvent.REBUILT)
            return self._ask(self.world_lock.publish, world)

        return self._with_world(deadline, start_over)

    def act(self, actions: Sequence[Any]) -> int:
        """Queue actions for the next tick; return how many they pushed out."""
        self.check_alive()
        pushed_out = self.world_lock.queue.put(actions)
        self._go(SessionEvent.BEGIN)
        return pushed_out

    def advance(
        self, ticks: int, actions: Sequence[Any], interrupt: Callable[[Sequence[str], bool], str], deadline: Deadline
    ) -> AdvanceResult:
        """Advance by up to `ticks` ticks; `interrupt` ends it early."""

        def tick(world: World) -> AdvanceResult:
            if actions:
                self._ask(world.act, actions)
            start, reason = world.ticks, ""
            for _ in range(ticks):
                if world.is_over or reason:
                    break
                reason = interrupt(self._tick(world), world.is_over)
                self.check_alive()
            done = world.ticks - start
            still = None if done or actions else self.world_lock.snapshots.current
            return AdvanceResult.after(still or self._ask(self.world_lock.publish, world), done, reason)

        return self._with_world(deadline, tick)

    def run_for(self, seconds: float) -> bool:
        """Run freely: do one tick, and more until `seconds` have passed.

        False when it did none: another thread holds the world, or it is not built, or has ended.
        """

        def run() -> bool:
            world = self.world_lock.world
            if world is None or self.has_ended:
                return False
            end = time.monotonic() + seconds
            self._tick(world)
            while not self.has_ended and self.rate_hz is not None and time.monotonic() < end:
                self._tick(world)
            if world.is_over:
                self._ask(self.world_lock.publish, world)
            return True

        try:
            return self._is_built.is_set and self._holding(None, run)  # `build` does not wait for the world
        except TransportError:
            return False  # the world's errors are kept in `_error`

    def latest(self, after_tick: int, deadline: Deadline) -> WorldSnapshot:
        """Return the newest snapshot after `after_tick`; waits while there is none."""
        self._await_built(deadline)
        self._check_can_show(after_tick)
        found = self.world_lock.snapshots.wait(after_tick, deadline, self.world_lock.serve_readers)
        if found is None:
            self._check_can_show(after_tick)
            raise nothing_newer(self.id, after_tick, deadline)
        return found

    def destroy(self) -> None:
        """End the session: waiting calls end at once, one that ticks ends after that tick. Idempotent."""
        self._go(SessionEvent.DESTROY)
        self.rate_hz = None
        self._is_built.set()
        self.world_lock.discard()

    def check_alive(self) -> None:
        """Raise SessionEnded if the session was destroyed or has failed."""
        if self.phase is Phase.GONE:
            raise SessionEnded(f"session {self.id} was destroyed", hint="create another one")
        if self.phase is Phase.FAILED:
            raise SessionEnded(f"session {self.id} failed: {self._error}", hint="create another one")

    def _check_can_show(self, after_tick: int) -> None:
        """Raise SessionEnded when no snapshot after that tick can come any more."""
        self.check_alive()
        newest = self.world_lock.snapshots.newest
        if newest is not None and newest.is_over and newest.ticks <= after_tick:
            raise SessionEnded(f"session {self.id} is over since tick {newest.ticks}: there is nothing newer to see")

    def _tick(self, world: World) -> Sequence[str]:
        self._go(SessionEvent.BEGIN)
        events = self._ask(self.world_lock.tick, world)
        if world.is_over:
            self._go(SessionEvent.OVER)
        return events

    def _with_world(self, deadline: Deadline, work: Callable[[World], R]) -> R:
        """Wait until the world is built, then hold it and a worker slot. Raises PeerTimeout, SessionEnded, Busy."""

        def with_slot() -> R:
            self.check_alive()
            assert self.world_lock.world is not None, "it is built and alive"
            return work(self.world_lock.world)

        self._await_built(deadline)
        return self._holding(deadline, lambda: self._slots.hold(deadline, with_slot))

    def _holding(self, deadline: Deadline | None, work: Callable[[], R]) -> R:
        """Return what `work` returns, which holds the world."""
        held = False
        try:
            held = self.world_lock.acquire(deadline)
            if held:
                return work()
            timeout_s = deadline.timeout_s if deadline is not None else 0.0
            raise PeerTimeout(
                f"session {self.id} was in use for {timeout_s:g} s", hint="one call after another advances it"
            )
        except TransportError:
            raise
        except BaseException as error:  # an attribute of a world, too
            raise self._fail(error) from error
        finally:
            if held:
                self.world_lock.lock.release()
                self.world_lock.settle()

    def _ask(self, call: Callable[..., R], *args: Any) -> R:
        """Return what the world's own code returns; what it raises ends the session, Busy and PeerTimeout too."""
        try:
            return call(*args)
        except BaseException as error:
            raise self._fail(error) from error

    def _fail(self, error: BaseException) -> TransportError:
        if is_interruption(error):  # of the program's own thread; the world did nothing wrong
            raise error
        failure = to_wire_error(self._engine, f"session {self.id}", error)
        self._error = str(failure)
        self._go(SessionEvent.FAILED)
        self.world_lock.discard()
        return failure

    def _await_built(self, deadline: Deadline) -> None:
        if not self._is_built.wait(deadline.remaining_s):
            raise PeerTimeout(
                f"session {self.id} was not ready within {deadline.timeout_s:g} s", hint="raise the timeout"
            )

    def _go(self, event: SessionEvent) -> None:
        with self._phase_lock:
            self.phase = following(self.phase, event)
