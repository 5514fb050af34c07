"""How a promise is written: its name, how it is measured, the goal.

A target reads the bench's result and nothing else; what was not measured is "NOT MEASURED", never "PASS". Targets are
printed by `bench --check`; no test asserts one, since a busy machine may miss them honestly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lucky_transport_migration.bench.stats import LEAST_ROUNDS

__all__ = ["Measure", "Result", "SpeedTarget", "at_least", "at_most", "check", "times"]

Result = Mapping[str, Any]
#: Reads a figure from a result, None where it does not hold what that needs.
Measure = Callable[[Result], float | None]


@dataclass(frozen=True, slots=True)
class SpeedTarget:
    """One promise."""

    name: str
    unit: str
    sense: Literal["at least", "at most"]
    goal: float
    measure: Measure


def check(result: Result, targets: Iterable[SpeedTarget]) -> list[dict[str, Any]]:
    """Return each target's outcome in `result` as JSON values.

    `word` is PASS, FAIL, NOT MEASURED, or NO VERDICT where the rounds were too few for one.
    """
    return [_check(target, result) for target in targets]


def _check(target: SpeedTarget, result: Result) -> dict[str, Any]:
    measured, goal = target.measure(result), target.goal
    if measured is None:
        word = "NOT MEASURED"
    elif result["rounds"] < LEAST_ROUNDS:
        word = "NO VERDICT"
    else:
        word = "PASS" if (measured >= goal if target.sense == "at least" else measured <= goal) else "FAIL"
    return {
        "name": target.name,
        "unit": target.unit,
        "sense": target.sense,
        "goal": goal,
        "measured": None if measured is None else round(measured, 3),
        "word": word,
    }


def times(*, to: str, **wanted: Any) -> Measure:
    """Return what reads the ratio of `to` to shm of that kind; adaptive waits unless `wait` is given."""
    keys: dict[str, Any] = {"of": "shm", "to": to, "rate_hz": None, "what": "", "wait": "adaptive", **wanted}

    def measure(result: Result) -> float | None:
        for one in result["ratios"]:
            if all(one[key] == value for key, value in keys.items()):
                return float(one["ratio"])
        return None

    return measure


def at_least(name: str, goal: float, measure: Measure) -> SpeedTarget:
    """Return the target that `measure`, a number of times, reaches `goal`."""
    return SpeedTarget(name, "times", "at least", goal, measure)


def at_most(name: str, unit: str, goal: float, measure: Measure) -> SpeedTarget:
    """Return the target that `measure`, in `unit`, does not go beyond `goal`."""
    return SpeedTarget(name, unit, "at most", goal, measure)
