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

from lucky_transport_migration.bench.plan import OPEN_LOOP_HZ, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["COMMANDS", "COMMAND_TARGETS", "CodecSetup", "CommandSetup", "plan_of_commands", "setups_of"]


def _row(kind: str, path: str, what: str = "", wait: str | None = "adaptive") -> dict[str, Any]:
    return {"kind": kind, "path": path, "what": what, "wait": wait if path == "shm" else None, "rate_hz": None}


def _over_shm(name: str, goal: float, kind: str, what: str = "", wait: str = "adaptive") -> SpeedTarget:
    """Return the target that gRPC takes so many times as long; of images those of the promised size."""
    options = {"width": 1280, "height": 720} if kind == "images" else {}
    theirs, ours = _row(kind, "grpc", what), _row(kind, "shm", what, wait)
    return SpeedTarget(name, "at least", goal, "times", theirs, ours, options=options)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    _over_shm("small typed call, inline, adaptive: gRPC over shm", 15, "unary", "inline"),
    _over_shm("small typed call, pool, adaptive: gRPC over shm", 15, "unary", "pool"),
    _over_shm("small typed call, inline, block: gRPC over shm", 4, "unary", "inline", "block"),
    _over_shm("small typed call, pool, block: gRPC over shm", 4, "unary", "pool", "block"),
    _over_shm("stream of 1 kB messages: gRPC over shm", 20, "stream"),
    _over_shm("1280x720 RGBA as views: gRPC over shm", 10, "images", "view"),
    _over_shm("1280x720 RGBA as copies: gRPC over shm", 8, "images", "copy"),
    SpeedTarget(
        "training loop of 1 ms steps: rate lost beside two streams", "at most", 5, "%", _row("training", "shm"),
        column="loss_percent",
    ),
    SpeedTarget(
        "codec, to write a message: ours over protobuf", "at most", 1.5, "times",
        _row("codec", "shm", "write", None), _row("codec", "grpc", "write"),
    ),
    SpeedTarget(
        "codec, to read a message: ours over protobuf", "at most", 1.5, "times",
        _row("codec", "shm", "read", None), _row("codec", "grpc", "read"),
    ),
)  # fmt: skip

COMMANDS = CallSuite(
    name="commands",
    title="Commands, streams and images",
    engine="echo",
    titles={
        "unary": "small typed call, handler {what}",
        "stream": "stream of 1 kB messages, per message",
        "images": "RGBA images, per image, as {what}",
        "training": "training loop, 1 ms a step, beside two streams",
        "codec": "codec, to {what} a message",
    },
    apart=frozenset({"training"}),  # compared by what it loses
    names={("codec", "shm"): "FlatBuffers", ("codec", "grpc"): "protobuf"},
    targets=COMMAND_TARGETS,
)

#: Of the images and steps; `--quick` makes them small.
_OPTIONS: dict[str, Any] = {"width": 1280, "height": 720, "item_bytes": 1000}
_QUICK_OPTIONS: dict[str, Any] = {"width": 64, "height": 36, "item_bytes": 1000}
_STEP_S = 0.001


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
        found = [replace(cell, what="inline"), replace(cell, what="inline", rate_hz=OPEN_LOOP_HZ)]
        found += [replace(cell, what="pool"), replace(cell, what="pool", rate_hz=OPEN_LOOP_HZ)]
        if self.full:
            found += [replace(cell, kind="stream"), *(replace(cell, kind="images", what=w) for w in ("view", "copy"))]
        return found

    def options(self, plan: Plan) -> dict[str, Any]:
        """Return the options of its engine."""
        return plan.options | {"step_s": _STEP_S} if self.training else plan.options

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        return f"{self.path}{wait}{', training' if self.training else ''}"


@dataclass(frozen=True, slots=True)
class CodecSetup:
    """The codec, which needs no processes of its own. `path`: of the row that is compared."""

    path: str = "shm"
    twin: bool = False

    def __str__(self) -> str:
        return "codec"


def setups_of(plan: Plan) -> Iterator[CommandSetup | CodecSetup]:
    """Yield the setups of one round."""
    for path in plan.paths:
        for wait in plan.waits_of(path):
            yield CommandSetup(path, wait, full=wait == plan.main_wait(path))
    for path in plan.paths:
        yield CommandSetup(path, plan.main_wait(path), training=True)
    yield CodecSetup()


def plan_of_commands(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line. A quick plan has one round of short loops and small images."""
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    options = _QUICK_OPTIONS if quick else _OPTIONS
    return Plan.of(paths, waits, options, rounds=rounds, quick=quick, budget_s=0.5)
