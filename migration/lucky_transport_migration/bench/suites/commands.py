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
from lucky_transport_migration.bench.targets import Measure, Result, SpeedTarget, at_least, at_most, times

__all__ = ["COMMANDS", "COMMAND_TARGETS", "CodecSetup", "CommandSetup", "plan_of_commands", "setups_of"]


def _images(reading: str) -> Measure:
    """Return what reads that ratio where the images were of the size that the promise is about."""
    ratio = times(to="grpc", kind="images", what=reading)

    def measure(result: Result) -> float | None:
        size = result["options"]["width"], result["options"]["height"]
        return ratio(result) if size == (1280, 720) else None

    return measure


def _codec(direction: str) -> Measure:
    """Return what reads how many times protobuf's time our codec takes."""
    grpc_over_shm = times(to="grpc", kind="codec", what=direction, wait=None)

    def measure(result: Result) -> float | None:
        found = grpc_over_shm(result)
        return None if found is None else 1 / found

    return measure


def _loss(result: Result) -> float | None:
    for row in result["rows"]:
        if (row["kind"], row["path"], row["wait"]) == ("training", "shm", "adaptive"):
            return float(row["loss_percent"])
    return None


def _unary(place: str, **more: Any) -> Measure:
    return times(to="grpc", kind="unary", what=place, **more)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    at_least("small typed call, inline, adaptive: gRPC over shm", 15, _unary("inline")),
    at_least("small typed call, pool, adaptive: gRPC over shm", 15, _unary("pool")),
    at_least("small typed call, inline, block: gRPC over shm", 4, _unary("inline", wait="block")),
    at_least("small typed call, pool, block: gRPC over shm", 4, _unary("pool", wait="block")),
    at_least("stream of 1 kB messages: gRPC over shm", 20, times(to="grpc", kind="stream")),
    at_least("1280x720 RGBA as views: gRPC over shm", 10, _images("view")),
    at_least("1280x720 RGBA as copies: gRPC over shm", 8, _images("copy")),
    at_most("training loop of 1 ms steps: rate lost beside two streams", "%", 5, _loss),
    at_most("codec, to write a message: ours over protobuf", "times", 1.5, _codec("write")),
    at_most("codec, to read a message: ours over protobuf", "times", 1.5, _codec("read")),
)

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
