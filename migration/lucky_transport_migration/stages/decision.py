"""Who answers the next call of a method, decided by stages that may change while the program runs.

    decider = Decider()
    decider.decide("/hazel.rpc.SceneService/GetEntity")     # Decision("grpc", "shm", "shadow")

Which calls go to a canary, and which reads get a shadow, is drawn at random, call by call: in a fixed order they would
miss what recurs in the same order, such as a slow call in every second one. A program's own random numbers are neither
used nor changed. File and journal are looked at most every 0.2 s; a file that cannot be read leaves the last good plan
in force, and that is logged once. So is a line of the journal that is not known; demotions behind it count. The
stepping path stays with the transport that the process began with, whatever the file says later: an engine does not
take another driver in the middle. Only a demotion below the file's own row, which is one by a fault, takes it away.
`decide` never raises and never waits for another thread.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lucky_transport.errors import ConfigError
from lucky_transport.fork import on_child
from lucky_transport.messages.methods import Effect
from lucky_transport.routing import Decision
from lucky_transport.uninterrupted import uninterrupted
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.stage import ROLES, Placement, Stage
from lucky_transport_migration.stages.stage_plan import StagePlan, find_file

LOOK_EVERY_S = 0.2

_log = logging.getLogger("lucky_transport")

_draws = random.Random()
on_child(_draws.seed)

#: What a file looks like from outside: (inode, size, time of its last change); None when it is not there.
_FileState = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One method until its stage changes: what is decided in its share of the calls, and in the others."""

    placement: Placement
    own: Decision
    other: Decision
    sample: float

    def next(self, draw: Callable[[], float]) -> Decision:
        """Return the decision of the next call."""
        decision = self.own if draw() < self.placement.share else self.other
        if decision.shadow and draw() >= self.sample:
            return replace(decision, shadow="")
        return decision


class Decider:
    """Decides by the nearest file from `directory` upwards. Safe to use from any thread.

    standing: the file and the journal as they were read last. Raises ConfigError for a file that is wrong from the
    start. clock: seconds, draw: numbers from 0 to below 1, for tests.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = _draws.random,
    ) -> None:
        self._seen: tuple[_FileState, _FileState] = (_state_of(find_file(directory)), None)  # before it is read
        self.standing = EffectiveStages.load(directory)
        self._clock = clock
        self._draw = draw
        self._rows: dict[str, _Row] = {}
        self._stepping: _Row | None = None
        self._lock = threading.Lock()
        self._next_look = clock() + LOOK_EVERY_S

    @property
    def plan(self) -> StagePlan:
        """The last good plan."""
        return self.standing.plan

    def decide(self, method: str) -> Decision:
        """Return who answers the next call of a method, given by its full name."""
        if self._clock() >= self._next_look:
            self._look()
        rows = self._rows  # a row is kept with those of its own time
        row = rows.get(method)
        if row is None:
            row = rows[method] = self._stepping_row() if method in STEPPING_PATH else self._new_row(method)
        return row.next(self._draw)

    def look(self) -> None:
        """Take what the file and the journal say now."""
        with self._lock:
            self._reload()

    def _look(self) -> None:
        self._next_look = self._clock() + LOOK_EVERY_S
        held = False
        try:
            [held] = uninterrupted(self._lock.acquire, False)
            if held:  # else another thread is looking
                self._reload()
        finally:
            if held:
                self._lock.release()

    def _reload(self) -> None:
        seen, self._seen = self._seen, self._states()
        if seen == self._seen:
            return
        plan = self._plan_now() if seen[0] != self._seen[0] else self.plan
        try:
            journal = Journal(plan.evidence)
            self.standing = EffectiveStages(plan, journal.demotions(unknown=lambda error: _log.warning("%s", error)))
        except ConfigError as error:
            _log.warning("stages stay as they were: %s", error)
        self._rows = {}

    def _plan_now(self) -> StagePlan:
        path = self.plan.path
        try:
            plan = StagePlan.load(path.parent)
            if plan.path != path or not path.is_file():
                raise ConfigError(f"{path} is gone", hint="put it back")
        except (ConfigError, OSError) as error:
            _log.warning("stages stay as they were: %s", error)
            return self.plan
        return plan

    def _states(self) -> tuple[_FileState, _FileState]:
        return _state_of(self.plan.path), _state_of(self.standing.journal.path)

    def _stepping_row(self) -> _Row:
        """Return the row of the stepping path: the one that the process began with, but for a demotion by a fault.

        A demotion by hand is in the file as well, and counts for programs that start later.
        """
        began, demotion = self._stepping, self.standing.demotion(STEP)
        if began is None or (demotion and demotion.to < min(began.placement, self.plan.placement(STEP))):
            row = self._new_row(STEP)
            decision = row.next(self._draw)
            began = self._stepping = replace(row, own=decision, other=decision)
        return began

    def _new_row(self, method: str) -> _Row:
        placement = self.standing.placement(method)
        effect = self._effect(method)
        own, other = (_decision(stage, placement, effect) for stage in (placement.stage, Stage.SHADOW))
        return _Row(placement, own, other, self.plan.sample)

    def _effect(self, method: str) -> Effect:
        try:
            return self.plan.effect(method)
        except (ConfigError, OSError) as error:  # what is kept beside the evidence cannot be read
            _log.warning("%s may change the world, for what describes its service cannot be read: %s", method, error)
            return Effect.WORLD


def _decision(stage: Stage, placement: Placement, effect: Effect) -> Decision:
    roles = ROLES[stage]
    return Decision(roles.primary, roles.shadow if effect is Effect.READ else "", str(placement), effect)


def _state_of(path: Path) -> _FileState:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns
