"""What the suite of commands measures: cells (one row each) in setups (one fresh pair of processes each).

    unary      one small typed call, its handler inline or in the pool, flat out or at 50 Hz
    stream     messages of 1 kB, none skipped, as fast as they come
    images     1280x720 RGBA, prepared beforehand, looked at or copied
    training   steps of 1 ms, alone and beside a 100 Hz telemetry and a 30 Hz camera stream
    codec      a typical message built and read, without any transport

All cells of a setup share its processes and its connection; a comparison is between setups of one round. What is
compared differs in transport and waiting strategy alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lucky_transport_migration.bench.call_suite.cell import CallCell, CallSuite
from lucky_transport_migration.bench.cells import OPEN_LOOP_HZ, QUICK
from lucky_transport_migration.bench.commands.targets import COMMAND_TARGETS
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.plan import Plan

__all__ = ["COMMANDS", "CodecSetup", "CommandPlan", "CommandSetup", "plan_of_commands", "setups_of"]

COMMANDS = CallSuite(
    name="commands",
    title="Commands, streams and images",
    engine="echo",
    titles={
        "unary": "small typed call, handler {what}",
        "stream": "stream of 1 kB messages, per message",
        "images": "RGBA pictures, per picture, as {what}",
        "training": "training loop, 1 ms a step, beside two streams",
        "codec": "codec, to {what} a message",
    },
    apart=frozenset({"training"}),  # compared by what it loses
    names={("codec", "shm"): "FlatBuffers", ("codec", "grpc"): "protobuf"},
    targets=COMMAND_TARGETS,
)

#: Of the pictures and steps; `--quick` makes them small.
_OPTIONS: dict[str, Any] = {"width": 1280, "height": 720, "item_bytes": 1000}
_QUICK_OPTIONS: dict[str, Any] = {"width": 64, "height": 36, "item_bytes": 1000}
_STEP_S = 0.001
_START_S = 0.9  # an engine process: started, connected, ended


@dataclass(frozen=True, slots=True)
class CommandSetup:
    """One engine process with one client. `training`: its engine takes its time for a step."""

    path: str
    wait: str | None
    training: bool = False
    full: bool = True  # False: only the calls; streams keep both sides awake, so that waiting hardly matters
    twin: bool = False

    def cells(self) -> list[CallCell]:
        """Return what to measure."""
        cell = CallCell("unary", self.path, self.wait)
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

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        parts = {"training": 4.5 * effort.budget_s}
        return _START_S + sum(
            effort.open_loop_s if cell.rate_hz else parts.get(cell.kind, 1.1 * effort.budget_s) for cell in self.cells()
        )

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        return f"{self.path}{wait}{', training' if self.training else ''}"


@dataclass(frozen=True, slots=True)
class CodecSetup:
    """The codec, which needs no processes of its own."""

    twin: bool = False

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        return 5 * effort.budget_s

    def __str__(self) -> str:
        return "codec"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan(Plan):
    """What the command line asked for. `options` go to the engine's constructor."""

    def options_of(self, setup: CommandSetup) -> dict[str, Any]:
        """Return the options of a setup's engine."""
        return self.options | {"step_s": _STEP_S} if setup.training else self.options


def setups_of(plan: CommandPlan) -> Iterator[CommandSetup | CodecSetup]:
    """Yield the setups of one round."""
    for path in plan.paths:
        for wait in plan.waits_of(path):
            yield CommandSetup(path, wait, full=wait == plan.main_wait(path))
    yield CommandSetup(plan.reference, plan.main_wait(plan.reference), twin=True)
    for path in plan.paths:
        yield CommandSetup(path, plan.main_wait(path), training=True)
    yield CodecSetup()


def plan_of_commands(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> CommandPlan:
    """Return the plan of a command line. A quick plan has one round of short loops and small pictures."""
    return CommandPlan(
        paths=tuple(paths),
        waits=tuple(waits or (("adaptive",) if quick else ("adaptive", "block"))),
        options=dict(_QUICK_OPTIONS if quick else _OPTIONS),
        rounds=1 if quick else rounds,
        effort=QUICK if quick else Effort(budget_s=0.5),
    )
