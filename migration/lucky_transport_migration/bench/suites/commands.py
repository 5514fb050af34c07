"""What the suite of commands measures: cells (one row each) in cases (one fresh pair of processes each).

    unary      one small typed call, its handler inline or in the pool, flat out or at 50 Hz
    stream     messages of 1 kB, none skipped, as fast as they come
    images     1280x720 RGBA, prepared beforehand, looked at or copied
    bytes      a typed call that sends 1 kB to 64 MB and gets them back, from the client that steps

All cells of a case share its processes and its connection; a comparison is between cases of one round. What is
compared differs in transport and waiting strategy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport_migration.bench.plan import OPEN_LOOP_HZ, Case, Plan
from lucky_transport_migration.bench.suite import BYTES_CASES, CallCases, CallSuite, call_row
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["COMMANDS", "COMMAND_TARGETS", "cases_of", "plan_of_commands"]


def _over_shm(name: str, goal: float, kind: str, what: str = "", wait: str = "adaptive") -> SpeedTarget:
    """Return the target that gRPC takes so many times as long; of images those of the promised size."""
    options = {"width": 1280, "height": 720} if kind == "images" else {}
    theirs, ours = call_row(kind, "grpc", what), call_row(kind, "shm", what, wait)
    return SpeedTarget(name, "at least", goal, "times", theirs, ours, options=options)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    _over_shm("small typed call, inline, adaptive: gRPC over shm", 15, "unary", "inline"),
    _over_shm("small typed call, pool, adaptive: gRPC over shm", 15, "unary", "pool"),
    _over_shm("small typed call, inline, block: gRPC over shm", 4, "unary", "inline", "block"),
    _over_shm("small typed call, pool, block: gRPC over shm", 4, "unary", "pool", "block"),
    _over_shm("stream of 1 kB messages: gRPC over shm", 20, "stream"),
    _over_shm("1280x720 RGBA as views: gRPC over shm", 10, "images", "view"),
    _over_shm("1280x720 RGBA as copies: gRPC over shm", 8, "images", "copy"),
)

COMMANDS = CallSuite(
    name="commands",
    title="Commands, streams and images",
    engine="echo",
    titles={
        "unary": "small typed call, handler {what}",
        "stream": "stream of 1 kB messages, per message",
        "images": "RGBA images, per image, as {what}",
        "bytes": "typed call with {what} there and back",
    },
    targets=COMMAND_TARGETS,
)

#: Of the images and messages; `--quick` makes them small.
_OPTIONS: dict[str, Any] = {"width": 1280, "height": 720, "item_bytes": 1000}
_QUICK_OPTIONS: dict[str, Any] = {"width": 64, "height": 36, "item_bytes": 1000}


_UNARY = [("unary", what, rate) for what in ("inline", "pool") for rate in (None, OPEN_LOOP_HZ)]
_CALLS = CallCases(
    [*_UNARY, ("stream", "", None), ("images", "view", None), ("images", "copy", None)], in_each_wait="unary"
)


def cases_of(plan: Plan) -> list[Case]:
    """Return the cases of one round."""
    return [*_CALLS.of(plan), *BYTES_CASES.of(plan)]


def plan_of_commands(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line. A quick plan has one round of short loops and small images."""
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    options = _QUICK_OPTIONS if quick else _OPTIONS
    return Plan.of(paths, waits, options, rounds=rounds, quick=quick, budget_s=0.5)
