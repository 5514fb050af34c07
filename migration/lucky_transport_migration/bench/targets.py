"""How a promise is written: a row of a table, that says of which rows of a result it is made.

A target reads the bench's result and nothing else; what was not measured is "NOT MEASURED", never "PASS". Targets are
printed by `bench --check`; no test asserts one, since a busy machine may miss them honestly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lucky_transport_migration.stats import LEAST_ROUNDS

Result = Mapping[str, Any]
#: What marks a row of a result: its values under these keys.
Marks = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SpeedTarget:
    """One promise: what `numerator` holds over what `denominator` does, of times in "µs" their difference.

    A numerator is a row or a number. column: the figure of a row, dotted; of several values under it their sum.
    options: what the run must have been asked for.
    """

    name: str
    sense: Literal["at least", "at most"]
    goal: float
    unit: str
    numerator: Marks | float
    denominator: Marks | None = None
    column: str = "us.p50"
    options: Marks = field(default_factory=dict[str, Any])

    def measured(self, result: Result) -> float | None:
        """Return the figure, None where the result does not hold what that needs."""
        if any(result["options"].get(key) != value for key, value in self.options.items()):
            return None
        over = _figure(result, self.numerator, self.column) if isinstance(self.numerator, Mapping) else self.numerator
        if self.denominator is None or over is None:
            return over
        under = _figure(result, self.denominator, self.column)
        if not under:
            return None
        return over - under if self.unit == "µs" else over / under


def _figure(result: Result, marks: Marks, column: str) -> float | None:
    """Return the figure of the first row with these marks."""
    for row in result["rows"]:
        if all(row.get(key) == value for key, value in marks.items()):
            found: Any = row
            for key in column.split("."):
                found = found.get(key)
                if found is None:
                    return None
            parts = list(found.values()) if isinstance(found, Mapping) else [found]
            return None if None in parts else float(sum(parts))
    return None


def check(result: Result, targets: Iterable[SpeedTarget]) -> list[dict[str, Any]]:
    """Return each target's outcome in `result` as JSON values.

    `word` is PASS, FAIL, NOT MEASURED, or NO VERDICT where the rounds were too few for one.
    """
    return [_check(target, result) for target in targets]


def _check(target: SpeedTarget, result: Result) -> dict[str, Any]:
    measured, goal = target.measured(result), target.goal
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
