"""What the suite of systems measures: cells (one row each) in setups (one fresh pair of processes each).

    libenv      a C library of 64 envs: hosted over shm, and called by ctypes in this process
    holodeck    one tick of a Holodeck world of ours, and of two bare processes that take turns by semaphores
    sessions    64 skirmishes over shm, over OpenRA's bridge (gRPC) and in this process
    pipe        actions of cart poles over the pipe, and a raw unix socket that moves as many bytes

What a system is compared with does the least that the same job needs: it has no checks and no client library. All cells
of a setup share its processes; a comparison is between setups of one round.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.plan import START_S, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite
from lucky_transport_migration.bench.targets import Measure, Result, SpeedTarget, at_least, at_most, times

__all__ = ["OPTIONS", "SYSTEMS", "System", "SystemSetup", "plan_of_systems", "setups_of"]

System = Literal["libenv", "holodeck", "sessions", "pipe"]

#: A promise about many sessions says nothing of few, as `--quick` has them.
_SESSIONS, _QUEUED, _PAUSE_S = 64, 1000, 2.0


def _row(result: Result, kind: str, path: str, **options: Any) -> Mapping[str, Any] | None:
    """Return the row of that kind and path, adaptive where it waits; None where the run had other `options`."""
    if any(result["options"][name] != value for name, value in options.items()):
        return None
    fits = (row for row in result["rows"] if (row["kind"], row["path"]) == (kind, path))
    return next((row for row in fits if row["wait"] in (None, "adaptive")), None)


def _column(name: str, kind: str, path: str, **options: Any) -> Measure:
    def measure(result: Result) -> float | None:
        row = _row(result, kind, path, **options)
        return None if row is None else float(row[name])

    return measure


def _p50(result: Result, kind: str, path: str) -> float | None:
    row = _row(result, kind, path)
    return None if row is None else float(row["us"]["p50"])


def _hosting(result: Result) -> float | None:
    hosted, direct = _p50(result, "library", "shm"), _p50(result, "library", "direct")
    return None if hosted is None or direct is None else hosted - direct


def _over_socket(result: Result) -> float | None:
    found = times(of="pipe", to="unix-socket", kind="action", wait=None)(result)
    return None if found is None else 1 / found


def _of_sessions(kind: str, to: str) -> Measure:
    """Return what reads how many times shm's time another way takes, where there were as many sessions as promised."""
    ratio = times(to=to, kind=kind)
    return lambda result: ratio(result) if result["options"]["sessions"] == _SESSIONS else None


SYSTEM_TARGETS: tuple[SpeedTarget, ...] = (
    at_most("C library of 64 envs hosted over shm, adaptive: what hosting adds to a step", "µs", 10, _hosting),
    at_least("64 sessions, created until ready: gRPC over shm", 5, _of_sessions("ready", "openra")),
    at_least("64 sessions, advanced by a tick: gRPC over shm", 5, _of_sessions("advance", "openra")),
    at_least("64 sessions running freely, ticks a second: shm over in-process", 0.8, _of_sessions("free", "inproc")),
    at_most(
        "reader that paused for 2 s over shm: behind the newest", "ticks", 0,
        _column("behind_ticks", "pause", "shm", pause_s=_PAUSE_S),
    ),
    at_most(
        "reader that paused for 2 s over gRPC: behind the newest", "ticks", 1,
        _column("behind_ticks", "pause", "openra", pause_s=_PAUSE_S),
    ),
    at_most("pipe, one action: over a raw unix socket", "times", 1.5, _over_socket),
    at_most("pipe, 16 sessions in step: an action", "µs", 50, lambda result: _p50(result, "slots", "pipe")),
    at_most(
        "pipe, 1,000 sessions queued over 16 slots: longest time without news", "ms", 100,
        _column("largest_gap_ms", "queue", "pipe", queued=_QUEUED),
    ),
)  # fmt: skip

SYSTEMS = CallSuite(
    name="systems",
    title="Other systems beside their limits",
    engine="a C library, toy:idle, skirmish, cartpole",
    titles={
        "library": "C library of 64 envs, per step",
        "library_env": "C library of 64 envs, per VectorEnv.step",
        "tick": "Holodeck, per tick",
        "ready": "skirmish: a session created until it can be played",
        "advance": "skirmish: a session advanced by one tick",
        "ticks": "skirmish: all sessions advanced together, ten ticks each, per tick",
        "free": "skirmish: all sessions running freely, per tick",
        "pause": "skirmish: the first look of a reader that paused",
        "action": "pipe: one action, answered by its state",
        "slots": "pipe: 16 sessions in step, per action",
        "queue": "pipe: sessions queued over 16 slots, per session",
    },
    apart=frozenset({"pause"}),  # judged by what it sees
    names={
        ("library", "shm"): "the library hosted over shared memory",
        ("library", "direct"): "the library called directly",
        ("tick", "holodeck"): "a Holodeck world of ours",
        ("tick", "semaphores"): "two bare processes",
        ("ticks", "shm"): "an engine over shared memory",
        ("ticks", "inproc"): "one in the same process",
        ("free", "shm"): "an engine over shared memory",
        ("free", "inproc"): "one in the same process",
        ("action", "pipe"): "the pipe",
    },
    ours={"tick": "holodeck", "action": "pipe"},
    targets=SYSTEM_TARGETS,
)

#: (system, path) -> the kinds of its cells, in the order they are measured.
_KINDS: dict[tuple[System, str], tuple[str, ...]] = {
    ("libenv", "shm"): ("library", "library_env"),
    ("libenv", "direct"): ("library",),
    ("holodeck", "holodeck"): ("tick",),
    ("holodeck", "semaphores"): ("tick",),
    ("sessions", "shm"): ("ready", "advance", "ticks", "free", "pause"),
    ("sessions", "openra"): ("ready", "advance", "ticks", "pause"),
    ("sessions", "inproc"): ("ticks", "free"),
    ("pipe", "pipe"): ("action", "slots", "queue"),
    ("pipe", "unix-socket"): ("action",),
}

#: How much there is of each: what the promises are about.
OPTIONS: dict[str, Any] = {"num_envs": 64, "sessions": 64, "slots": 16, "queued": 1000, "pause_s": 2.0}
_QUICK_OPTIONS: dict[str, Any] = {"num_envs": 64, "sessions": 4, "slots": 16, "queued": 40, "pause_s": 0.1}
_QUEUE_S = 2.0


@dataclass(frozen=True, slots=True)
class SystemSetup:
    """One of a system's sides, with processes of its own."""

    system: System
    path: str
    wait: str | None
    twin: bool = False

    def cells(self) -> list[CallCell]:
        """Return what to measure."""
        kinds = _KINDS[self.system, self.path]
        return [CallCell(kind, self.path, self.wait) for kind in (kinds[:1] if self.twin else kinds)]

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        parts = {"pause": OPTIONS["pause_s"], "queue": _QUEUE_S}
        return START_S + sum(parts.get(cell.kind, 1.1 * effort.budget_s) for cell in self.cells())

    def __str__(self) -> str:
        wait = f" {self.wait}" if self.wait else ""
        return f"{self.system}, {self.path}{wait}"


def setups_of(plan: Plan, missing: Container[tuple[System, str]] = ()) -> Iterator[SystemSetup]:
    """Yield the setups of one round, without those that cannot be measured here."""
    for system, path in _KINDS:
        if path in plan.paths and (system, path) not in missing:
            for wait in plan.waits_of(path):
                yield SystemSetup(system, path, wait)
    if ("libenv", "shm") not in missing:
        yield SystemSetup("libenv", "shm", plan.main_wait("shm"), twin=True)


def plan_of_systems(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; without `grpc` among the transports nothing is measured over it.

    A quick plan has one round of short loops with few sessions. Raises ConfigError for other transports than these two
    and where shm is not among them.
    """
    if "shm" not in transports or not set(transports) <= {"grpc", "shm"}:
        raise ConfigError(
            f"--transports {','.join(transports)}: this suite compares what it serves over shm",
            hint="write --transports grpc,shm or --transports shm",
        )
    without = set() if "grpc" in transports else {"openra"}
    paths = list(dict.fromkeys(path for _, path in _KINDS if path not in without))
    options = _QUICK_OPTIONS if quick else OPTIONS
    return Plan.of(paths, waits or ("adaptive",), options, rounds=rounds, quick=quick, budget_s=0.5)
