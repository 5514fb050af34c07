"""What the suite of commands measures: cells (one row each) in setups (one fresh pair of processes each).

    unary      one small typed call, its handler inline or in the pool, flat out or at 50 Hz
    stream     messages of 1 kB, none skipped, as fast as they come
    images     1280x720 RGBA, prepared beforehand, looked at or copied
    training   steps of 1 ms, alone and beside a 100 Hz telemetry and a 30 Hz camera stream
    codec      a typical message built and read, without any transport

Rule 1: all cells of a setup share its processes and its connection; a comparison is between setups of one round.
Rule 2: what is compared differs in transport and waiting strategy alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lucky_transport_migration.cells import OPEN_LOOP_HZ, QUICK
from lucky_transport_migration.measuring import Effort

__all__ = ["CODEC", "ENGINE", "CommandCell", "CommandPlan", "CommandSetup", "plan_of_commands", "setups_of"]

ENGINE = "echo"
CODEC = "codec"

Kind = Literal["unary", "stream", "images", "training", "codec"]

#: Of the pictures and steps; `--quick` makes them small.
_OPTIONS: dict[str, Any] = {"width": 1280, "height": 720, "item_bytes": 1000}
_QUICK_OPTIONS: dict[str, Any] = {"width": 64, "height": 36, "item_bytes": 1000}
_STEP_S = 0.001


@dataclass(frozen=True, slots=True)
class CommandCell:
    """One row's key. `what`: the handler's place, how a picture is read, the codec's direction, or ""."""

    kind: Kind
    path: str
    wait: str | None = None
    what: str = ""
    rate_hz: int | None = None

    def over(self, path: str, wait: str | None) -> CommandCell:
        """Return the cell that differs in the way alone."""
        return replace(self, path=path, wait=wait)


@dataclass(frozen=True, slots=True)
class CommandSetup:
    """One engine process with one client. `training`: its engine takes its time for a step."""

    path: str
    wait: str | None
    training: bool = False
    full: bool = True  # False: only the calls; streams keep both sides awake, so that waiting hardly matters
    twin: bool = False

    def cells(self) -> list[CommandCell]:
        """Return what to measure."""
        cell = CommandCell("unary", self.path, self.wait)
        if self.training:
            return [replace(cell, kind="training")]
        found = [replace(cell, what="inline")]
        if self.twin:
            return found
        found += [replace(cell, what="inline", rate_hz=OPEN_LOOP_HZ)]
        found += [replace(cell, what="pool"), replace(cell, what="pool", rate_hz=OPEN_LOOP_HZ)]
        if self.full:
            found += [replace(cell, kind="stream"), *(replace(cell, kind="images", what=w) for w in ("view", "copy"))]
        return found


@dataclass(frozen=True, slots=True)
class CommandPlan:
    """What the command line asked for. `options` go to the engine's constructor."""

    paths: tuple[str, ...]
    waits: tuple[str, ...]
    options: dict[str, Any]
    rounds: int
    effort: Effort

    @property
    def reference(self) -> str:
        """The path that all others are compared with."""
        return "shm" if "shm" in self.paths else self.paths[0]

    def main_wait(self, path: str) -> str | None:
        """The waiting strategy that stands for `path`: adaptive where it was asked for."""
        if path != "shm":
            return None
        return "adaptive" if "adaptive" in self.waits else self.waits[0]

    def waits_of(self, path: str) -> tuple[str | None, ...]:
        """The waiting strategies in which `path` is measured."""
        return self.waits if path == "shm" else (None,)

    def order(self, setups: Sequence[CommandSetup], round_index: int) -> list[CommandSetup]:
        """Return a round's order: A B .. in even rounds, .. B A in odd ones."""
        return list(setups) if round_index % 2 == 0 else list(reversed(setups))

    def options_of(self, setup: CommandSetup) -> dict[str, Any]:
        """Return the options of a setup's engine."""
        return self.options | {"step_s": _STEP_S} if setup.training else self.options


def setups_of(plan: CommandPlan) -> Iterator[CommandSetup]:
    """Yield the setups of one round."""
    for path in plan.paths:
        for wait in plan.waits_of(path):
            yield CommandSetup(path, wait, full=wait == plan.main_wait(path))
    yield CommandSetup(plan.reference, plan.main_wait(plan.reference), twin=True)
    for path in plan.paths:
        yield CommandSetup(path, plan.main_wait(path), training=True)


def plan_of_commands(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> CommandPlan:
    """Return the plan of a command line. A quick plan has one round of short loops and small pictures."""
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    options = _QUICK_OPTIONS if quick else _OPTIONS
    effort = QUICK if quick else Effort(budget_s=0.5)
    return CommandPlan(tuple(paths), tuple(waits), dict(options), 1 if quick else rounds, effort)
