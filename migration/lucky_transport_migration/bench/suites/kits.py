"""What the suite of kits measures: one engine, the pendulum, in every language that an engine can be written in.

    exchange    one env: `send` and `recv` over shared memory, between two spinning C loops, over gRPC
    step        4,096 envs: VectorEnv.step with copies, the pendulums' own work in it

The client is Python in every row but the C loops'. All cells of a case share its processes; a comparison is between
cases of one round.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from lucky_transport.errors import ConfigError, plural
from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["BATCH", "KITS", "KIT_PATHS", "cases_of", "plan_of_kits"]

#: Engines made with a kit, by the path that leads to them.
KIT_PATHS = ("kit-c", "kit-cpp", "kit-csharp")
BATCH = 4096
#: path -> the kinds of its cells, in the order they are measured.
_KINDS: dict[str, tuple[str, ...]] = {
    "shm": ("exchange", "step"),
    **dict.fromkeys(KIT_PATHS, ("exchange", "step")),
    "limit": ("exchange",),
    "grpc-batch": ("exchange", "step"),
}


def _row(path: str, kind: str = "exchange") -> dict[str, str]:
    return {"kind": kind, "path": path}


_C, _SPIN = _row("kit-c"), _row("limit")
_TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget("C engine: exchange over the native spin, p50", "at most", 2, "times", _C, _SPIN),
    SpeedTarget("C engine: exchange over the native spin, p99.9", "at most", 3, "times", _C, _SPIN, "us.p999"),
    SpeedTarget("C# engine: exchange over the native spin, p50", "at most", 3, "times", _row("kit-csharp"), _SPIN),
    SpeedTarget(
        "C engine: exchange, gRPC batch service over ours", "at least", 300, "times", _row("grpc-batch"), _C,
    ),
    SpeedTarget(
        f"C++ engine: env-steps through VectorEnv.step, {plural(BATCH, 'env')}", "at least", 10, "million/s",
        float(BATCH), _row("kit-cpp", "step"),
    ),
)  # fmt: skip

KITS = CallSuite(
    name="kits",
    title="Engines in other languages",
    engine="pendulum",
    titles={
        "exchange": "pendulum, 1 env, one exchange",
        "step": f"pendulum, {plural(BATCH, 'env')}, VectorEnv.step(copy=True)",
    },
    names={
        (kind, path): name
        for kind in ("exchange", "step")
        for path, name in (("shm", "an engine in Python"), ("limit", "the native spin"))
    },
    ours={"exchange": "kit-c", "step": "kit-c"},
    targets=_TARGETS,
)


def cases_of(plan: Plan, missing: Container[str] = ()) -> list[Case]:
    """Return the cases of one round, one an engine, without the paths that cannot be measured here."""
    return [
        Case(path, None, tuple(CallCell(kind, path) for kind in _KINDS[path]))
        for path in plan.paths
        if path not in missing
    ]


def plan_of_kits(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Plan:
    """Return the plan of a command line; without `grpc` among the transports nothing is measured over it.

    Raises ConfigError for other transports than these two and where shm is not among them.
    """
    if "shm" not in transports or not set(transports) <= {"grpc", "shm"}:
        raise ConfigError(
            f"--between {','.join(transports)}: the engines of this suite are served over shm",
            hint="write --between grpc,shm or --between shm",
        )
    paths = [path for path in _KINDS if path != "grpc-batch" or "grpc" in transports]
    options: dict[str, Any] = {"num_envs": BATCH}
    return Plan.of(paths, (waits or ("adaptive",))[:1], options, rounds=rounds, quick=quick)
