"""What every suite's plan has: ways, rounds and effort, the reference among the ways, and the order of a round.

Setups of a round run in the order A B .. and in the next round .. B A, so that a machine that grows warm or busy
favours no variant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from lucky_transport_migration.bench.measuring import QUICK, Effort
from lucky_transport_migration.bench.stats import LEAST_ROUNDS

__all__ = ["OPEN_LOOP_HZ", "Plan"]

OPEN_LOOP_HZ = 50  # the rate at which the users of such engines step them

_Setup = TypeVar("_Setup")


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

    def with_twins(self, setups: Iterable[Any], path: str | None = None) -> list[Any]:
        """Return the setups, and behind them those of `path` (the reference) in its main wait once more.

        So each kind of row has its A/A pair; where the rounds are too few for a verdict, the first alone.
        """
        once, path = list(setups), path or self.reference
        wait = self.main_wait(path)
        ours = [one for one in once if getattr(one, "path", None) == path and getattr(one, "wait", wait) == wait]
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

    def order(self, setups: Sequence[_Setup], round_index: int) -> list[_Setup]:
        """Return a round's order: A B .. in even rounds, .. B A in odd ones."""
        return list(setups) if round_index % 2 == 0 else list(reversed(setups))
