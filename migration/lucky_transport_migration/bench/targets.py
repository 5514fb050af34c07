"""What the project promises, as one table: name, how it is measured, goal.

A target reads the bench's result and nothing else; what was not measured is "NOT MEASURED", never "PASS". Targets are
printed by `bench --check`; no test asserts one, since a busy machine may miss them honestly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["TARGETS", "Checked", "SpeedTarget", "check"]

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SpeedTarget:
    """One promise. `measure` returns the figure, None when the result does not hold what it needs."""

    name: str
    unit: str
    sense: Literal["at least", "at most"]
    goal: Callable[[Result], float]
    measure: Callable[[Result], float | None]


@dataclass(frozen=True, slots=True)
class Checked:
    """A target and what came of it: PASS, FAIL or NOT MEASURED."""

    name: str
    unit: str
    sense: str
    goal: float
    measured: float | None
    word: str

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "unit": self.unit,
            "sense": self.sense,
            "goal": self.goal,
            "measured": self.measured,
            "word": self.word,
        }


def check(result: Result, targets: Iterable[SpeedTarget] | None = None) -> list[Checked]:
    """Return each target's outcome in `result`."""
    return [_check(target, result) for target in (TARGETS if targets is None else targets)]


def _check(target: SpeedTarget, result: Result) -> Checked:
    goal, measured = target.goal(result), target.measure(result)
    if measured is None:
        word = "NOT MEASURED"
    else:
        met = measured >= goal if target.sense == "at least" else measured <= goal
        word = "PASS" if met else "FAIL"
    return Checked(target.name, target.unit, target.sense, goal, None if measured is None else round(measured, 3), word)


def _rows(result: Result, **wanted: Any) -> list[Mapping[str, Any]]:
    return [
        row
        for row in (*result["rows"], *result["surroundings"])
        if all(row.get(key) == value for key, value in wanted.items())
    ]


def _p50(result: Result, **wanted: Any) -> float | None:
    """Return the p50 of the one row that fits best; shm stands for its adaptive rows unless `wait` is wanted."""
    wanted = {"suite": "step", "rate_hz": None, "actions": "copy", "frame_bytes": None} | wanted
    if wanted.get("path") == "shm":
        wanted.setdefault("wait", "adaptive")
    rows = _rows(result, **wanted)
    return float(rows[0]["us"]["p50"]) if rows else None


def _transport(path: str, num_envs: int, engine: str = "toy:idle", **more: Any) -> Callable[[Result], float | None]:
    return lambda result: _p50(result, level="transport", path=path, num_envs=num_envs, engine=engine, **more)


def _env(path: str, num_envs: int, engine: str = "toy:idle") -> Callable[[Result], float | None]:
    return lambda result: _p50(result, level="env", path=path, num_envs=num_envs, engine=engine, copy=True)


Measure = Callable[[Result], float | None]


def _over(a: Measure, b: Measure) -> Measure:
    def measure(result: Result) -> float | None:
        x, y = a(result), b(result)
        return None if x is None or y is None else x / y

    return measure


def _minus(a: Measure, b: Measure) -> Measure:
    def measure(result: Result) -> float | None:
        x, y = a(result), b(result)
        return None if x is None or y is None else x - y

    return measure


def _idle_percent(result: Result) -> float | None:
    rows = _rows(result, suite="idle", path="shm", wait="adaptive")
    return float(rows[0]["cpu_percent"]) if rows else None


def _neighbour_p99(result: Result) -> float | None:
    rows = _rows(result, suite="threads", path="shm", wait="adaptive")
    return float(rows[0]["us"]["p99"]) if rows else None


def _fixed(goal: float) -> Callable[[Result], float]:
    return lambda result: goal


TARGETS: tuple[SpeedTarget, ...] = (
    SpeedTarget(
        "1 env, exchange: legacy gRPC over shm", "times", "at least", _fixed(400),
        _over(_transport("grpc", 1), _transport("shm", 1)),
    ),
    SpeedTarget(
        "1 env, exchange: batch service over shm", "times", "at least", _fixed(200),
        _over(_transport("grpc-batch", 1), _transport("shm", 1)),
    ),
    SpeedTarget(
        "1 env, exchange: shm over the native two-process spin", "times", "at most", _fixed(3),
        _over(_transport("shm", 1), _transport("limit", 1, wait="spin")),
    ),
    SpeedTarget(
        "1 env: what VectorEnv.step(copy=True) adds to the exchange", "µs", "at most", _fixed(4),
        _minus(_env("shm", 1), _transport("shm", 1)),
    ),
    SpeedTarget(
        "1 env, VectorEnv.step: legacy gRPC over shm", "times", "at least", _fixed(100),
        _over(_env("grpc", 1), _env("shm", 1)),
    ),
    SpeedTarget(
        "4096 envs, VectorEnv.step(copy=True), toy engine at work", "µs", "at most", _fixed(1000),
        _env("shm", 4096, "toy"),
    ),
    SpeedTarget(
        "4096 envs, exchange, engine copies its frame: batch service over shm", "times", "at least", _fixed(10),
        _over(_transport("grpc-batch", 4096, "toy:copy"), _transport("shm", 4096, "toy:copy")),
    ),
    SpeedTarget(
        "4096 envs, exchange: 4096 legacy Steps over shm whose engine copies its frame", "times", "at least",
        _fixed(1000), _over(_transport("grpc", 4096), _transport("shm", 4096, "toy:copy")),
    ),
    SpeedTarget(
        "in place: 4096 envs over 1 env", "times", "at most", _fixed(1.5),
        _over(_transport("shm", 4096, actions="inplace"), _transport("shm", 1, actions="inplace")),
    ),
    SpeedTarget("idle engine's CPU, adaptive", "%", "at most", _fixed(0.5), _idle_percent),
    SpeedTarget(
        "50 steps a second: adaptive minus block", "µs", "at most", _fixed(20),
        _minus(_transport("shm", 1, rate_hz=50), _transport("shm", 1, rate_hz=50, wait="block")),
    ),
    SpeedTarget("other threads of a waiting client, p99 lateness", "µs", "at most", _fixed(1000), _neighbour_p99),
)  # fmt: skip
