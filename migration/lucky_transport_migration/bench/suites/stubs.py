"""What the suite of stubs measures: cells (one row each) in setups (one fresh pair of processes each).

    unary      a call of about 100 bytes each way, its handler in the pool or marked inline, flat out or at 50 Hz
    stream     messages of 1 kB from the server, as fast as they come
    callers    16 threads of one client on one channel, each calling flat out
    aio        the unary call once more, awaited one at a time; channel and server are those of asyncio
    program    the unary call of a whole program to another, over shm both under `lucky-transport run`
    training   the steps of a luckyrobots LuckyEnv loop, over shm under `lucky-transport run`

All cells of a setup share its processes and its channel; a comparison is between setups of one round. What is compared
runs the same stub, the same servicer and the same loop; channel and server differ alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bench.plan import OPEN_LOOP_HZ, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["PROGRAM_PARTS", "STUBS", "StubSetup", "plan_of_stubs", "setups_of"]


def _row(kind: str, path: str, what: str = "", wait: str = "adaptive") -> dict[str, str | None]:
    return {"kind": kind, "path": path, "what": what, "wait": wait if path == "shm" else None, "rate_hz": None}


_TCP, _SHM = _row("unary", "grpc-tcp", "pool"), _row("unary", "shm", "pool")
STUB_TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget("unary, pool, adaptive: gRPC over TCP over shm", "at least", 15, "times", _TCP, _SHM),
    SpeedTarget(
        "unary, pool, adaptive: gRPC over a unix socket over shm", "at least", 12, "times",
        _row("unary", "grpc-unix", "pool"), _SHM,
    ),
    SpeedTarget(
        "unary, pool, block: gRPC over TCP over shm", "at least", 4, "times",
        _TCP, _row("unary", "shm", "pool", "block"),
    ),
    SpeedTarget(
        "server streaming of 1 kB messages: gRPC over TCP over shm", "at least", 20, "times",
        _row("stream", "grpc-tcp"), _row("stream", "shm"),
    ),
    SpeedTarget(
        "16 concurrent callers: gRPC over TCP over shm", "at least", 8, "times",
        _row("callers", "grpc-tcp"), _row("callers", "shm"),
    ),
    SpeedTarget(
        "CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP", "at most", 0.2, "times",
        _SHM, _TCP, "cpu_us_each",
    ),
)  # fmt: skip

STUBS = CallSuite(
    name="stubs",
    title="Existing gRPC code over shared memory",
    engine="a servicer that answers with what it was asked",
    titles={
        "unary": "unary call of a generated stub, handler {what}",
        "stream": "server streaming of 1 kB messages, per message",
        "callers": "16 concurrent callers of one channel, per call",
        "aio": "unary call of a generated stub, asyncio on both sides",
        "program": "unmodified program and its server, per call",
        "training": "LuckyEnv training loop, per step",
    },
    targets=STUB_TARGETS,
)

#: A transport as the command line names it -> the ways by which its stubs can be reached.
_WAYS = {"grpc": ("grpc-tcp", "grpc-unix"), "shm": ("shm",)}
_TCP_AND_SHM = ("grpc-tcp", "shm")  # the ways of whole programs: they connect to a port
_OPTIONS = {"text_chars": 100, "item_bytes": 1000, "callers": 16}
#: A whole program measures so many times the budget: it warms up by itself, a training loop with its policy too.
PROGRAM_PARTS = 4


@dataclass(frozen=True, slots=True)
class StubSetup:
    """One server process with one client process."""

    path: str
    wait: str | None
    kind: Literal["calls", "asyncio", "program", "training"] = "calls"
    full: bool = True  # False: only the unary calls; the others keep both sides awake, so that waiting hardly matters
    twin: bool = False

    def cells(self) -> list[CallCell]:
        """Return what to measure."""
        cell = CallCell("unary", self.path, self.wait)
        if self.kind in ("program", "training"):
            return [replace(cell, kind=self.kind)]
        if self.kind == "asyncio":
            return [replace(cell, kind="aio")]
        pool, inline = replace(cell, what="pool"), replace(cell, what="inline")
        found = [pool, inline, *(replace(one, rate_hz=OPEN_LOOP_HZ) for one in (pool, inline))]
        return [*found, replace(cell, kind="stream"), replace(cell, kind="callers")] if self.full else found

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        return f"{self.path}{wait}" if self.kind == "calls" else f"{self.path}{wait}, {self.kind}"


def setups_of(plan: Plan, *, training: bool) -> Iterator[StubSetup]:
    """Yield the setups of one round."""
    for path in plan.paths:
        for wait in plan.waits_of(path):
            yield StubSetup(path, wait, full=wait == plan.main_wait(path))
    for path in plan.paths:
        yield StubSetup(path, plan.main_wait(path), "asyncio")
    for kind in ("program", "training") if training else ("program",):
        for path in plan.paths:
            if path in _TCP_AND_SHM:
                yield StubSetup(path, plan.main_wait(path), kind)


def plan_of_stubs(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; `grpc` stands for loopback TCP and for a unix socket.

    A quick plan has one round of short loops. Raises ConfigError for a transport that carries no stubs.
    """
    for name in transports:
        if name not in _WAYS:
            raise ConfigError(
                f"transport {name!r} carries no calls of gRPC stubs", hint=f"write --transports {','.join(_WAYS)}"
            )
    paths = [way for name in transports for way in _WAYS[name]]
    waits = waits or (("adaptive",) if quick else ("adaptive", "block"))
    return Plan.of(paths, waits, _OPTIONS, rounds=rounds, quick=quick, budget_s=0.5)
