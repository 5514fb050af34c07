"""Rounds of setups, as one JSON-able result.

What could not be measured is a note, never a silent gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lucky_transport_migration.bench import environment
from lucky_transport_migration.bench.call_suite.cell import CallCell, CallSuite
from lucky_transport_migration.bench.call_suite.comparisons import call_floor, call_ratios
from lucky_transport_migration.bench.call_suite.rows import Measured, call_row
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.stats import CHECKED
from lucky_transport_migration.bench.verdict import verdict

__all__ = ["CallSetup", "CallSuiteResults", "Prepared"]

_COMMON_NOTES = (
    "p50 is the median over rounds of fresh processes; p99 and beyond come from all rounds' samples together",
    "an open loop counts latency from when a call was due, so waiting for a slow one is not left out",
    "a stream's time per item is its whole time over its items, the first tenth left out",
)


class CallSetup(Protocol):
    """What one fresh pair of processes measures; its text says so. `twin`: the second measurement of an A/A pair."""

    @property
    def twin(self) -> bool: ...

    def estimate_s(self, effort: Effort) -> float:
        """Return about how long it takes in one round."""
        ...


@dataclass
class CallSuiteResults:
    """All measurements, by cell, one per round; `twins` are the second halves of A/A pairs."""

    cells: dict[CallCell, list[Measured]] = field(default_factory=dict[CallCell, list[Measured]])
    twins: dict[CallCell, list[Measured]] = field(default_factory=dict[CallCell, list[Measured]])

    def add(self, setup: CallSetup, found: Mapping[CallCell, Measured]) -> None:
        """Add what a setup measured in one round."""
        table = self.twins if setup.twin else self.cells
        for cell, measured in found.items():
            table.setdefault(cell, []).append(measured)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite ready to run: the setups of each round, what measures one of them, what a reader must know besides."""

    suite: CallSuite
    plan: Plan
    setups: Sequence[Any]
    measure: Callable[[Any], Mapping[CallCell, Measured]]
    notes: Sequence[str] = ()

    @property
    def pieces(self) -> int:
        """How many times `run` calls `advance`."""
        return self.plan.rounds * len(self.setups)

    @property
    def estimate_s(self) -> float:
        """About how long `run` takes."""
        return self.plan.rounds * sum(setup.estimate_s(self.plan.effort) for setup in self.setups)

    def run(self, command: str, advance: Callable[..., None] = lambda text="": None) -> dict[str, Any]:
        """Return the result as JSON values; `advance` is called with a text after each setup.

        Raises what `measure` raises.
        """
        results, load = CallSuiteResults(), os.getloadavg()[0]
        for index in range(self.plan.rounds):
            for setup in self.plan.order(self.setups, index):
                results.add(setup, self.measure(setup))
                advance(f"round {index + 1}: {setup}")
        return self.result_of(results, command, load)

    def result_of(self, results: CallSuiteResults, command: str, load: float) -> dict[str, Any]:
        """Return the result of these measurements; `load` is the machine's before the first of them."""
        suite, plan = self.suite, self.plan
        floor = call_floor(suite, results.cells, results.twins)
        ratios = call_ratios(suite, results.cells, plan, floor)
        return {
            "version": 1,
            "suite": suite.name,
            "title": suite.title,
            "command": command,
            "engine": suite.engine,
            "options": plan.options,
            "rounds": plan.rounds,
            "reference": plan.reference,
            "reference_wait": plan.main_wait(plan.reference),
            "environment": environment.capture(),
            "rows": [
                {"suite": suite.name, "title": suite.title_of(cell), **suite.columns(cell), **call_row(cell, rounds)}
                for cell, rounds in results.cells.items()
            ],
            "surroundings": [],
            "ratios": ratios,
            "verdict": verdict(plan.reference, [one for one in ratios if one["main"]], CHECKED, floor),
            "noise_floor": floor,
            "notes": [*_busy(load), *self.notes, *_COMMON_NOTES],
        }


def _busy(load: float) -> list[str]:
    if load <= len(os.sched_getaffinity(0)) / 4:
        return []
    return [
        f"the machine was busy before the bench began (load {load:.1f}): tails and waiting are worse than it can do"
    ]
