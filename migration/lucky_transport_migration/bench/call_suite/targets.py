"""How targets of a suite of calls are written: what is read from its result, and the goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["Measure", "Result", "at_least", "at_most", "times"]

Result = Mapping[str, Any]
Measure = Callable[[Result], float | None]


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
    return SpeedTarget(name, "times", "at least", lambda result: goal, measure)


def at_most(name: str, unit: str, goal: float, measure: Measure) -> SpeedTarget:
    """Return the target that `measure`, in `unit`, does not go beyond `goal`."""
    return SpeedTarget(name, unit, "at most", lambda result: goal, measure)
