"""What every suite plans: cases, and the ways, rounds and effort, the reference among the ways, the order of a round.

Cases of a round run in the order A B .. and in the next round .. B A, so that a machine that grows warm or busy
favours no variant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from lucky_transport_migration.bench.measuring import QUICK, Effort
from lucky_transport_migration.bench.stats import LEAST_ROUNDS

__all__ = ["OPEN_LOOP_HZ", "Case", "Plan"]

OPEN_LOOP_HZ = 50  # the rate at which the users of such engines step them


@dataclass(frozen=True, slots=True)
class Case:
    """What one fresh pair of processes measures: `cells`, a row each. Its text says so.

    what: of which kind or size it is, "" for the usual one of its suite. twin: the second measurement of an A/A pair.
    """

    path: str
    wait: str | None
    cells: tuple[Any, ...]
    what: str = ""
    twin: bool = False

    def __str__(self) -> str:
        way = f"{self.path} {self.wait}" if self.wait else self.path
        return f"{way}, {self.what}" if self.what else way


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asked for. `options` say how large what is sent is, and go to what answers."""

    paths: tuple[str, ...]
    waits: tuple[str, ...]
    options: dict[str, Any]
    rounds: int
    effort: Effort

    @property
    def reference(self) -> str:
        """The path that all others are compared with."""
        return "shm" if "shm" in self.paths else self.paths[0]

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        waits: Sequence[str],
        options: Mapping[str, Any],
        *,
        rounds: int,
        quick: bool,
        budget_s: float = Effort.budget_s,
        **more: Any,
    ) -> Self:
        """Return a plan, a quick one with one round of short loops."""
        return cls(
            paths=tuple(paths),
            waits=tuple(waits),
            options=dict(options),
            rounds=1 if quick else rounds,
            effort=QUICK if quick else Effort(budget_s=budget_s),
            **more,
        )

    def with_twins(self, cases: Iterable[Case], path: str | None = None) -> list[Case]:
        """Return the cases, and behind them those of `path` (the reference) in its main wait once more.

        So each kind of row has its A/A pair; where the rounds are too few for a verdict, the first alone.
        """
        once, path = list(cases), path or self.reference
        ours = [one for one in once if one.path == path and one.wait in (None, self.main_wait(path))]
        again = ours if self.rounds >= LEAST_ROUNDS else ours[:1]
        return [*once, *(replace(one, twin=True) for one in again)]

    def main_wait(self, path: str) -> str | None:
        """The waiting strategy that stands for `path` in comparisons: adaptive where it was asked for."""
        if path != "shm":
            return None
        return "adaptive" if "adaptive" in self.waits else self.waits[0]

    def waits_of(self, path: str) -> tuple[str | None, ...]:
        """The waiting strategies in which `path` is measured."""
        return self.waits if path == "shm" else (None,)

    def order(self, cases: Sequence[Case], round_index: int) -> list[Case]:
        """Return a round's order: A B .. in even rounds, .. B A in odd ones."""
        return list(cases) if round_index % 2 == 0 else list(reversed(cases))
