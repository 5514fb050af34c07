"""The bench: rounds of setups, then the suites around them, as one JSON-able result.

What could not be measured is a note, never a silent gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lucky_transport_migration.bench import environment
from lucky_transport_migration.bench.bench_plan import BenchPlan, setups_of
from lucky_transport_migration.bench.cells import IDLE, Cell
from lucky_transport_migration.bench.limits import limit_cells, measure_limit
from lucky_transport_migration.bench.measuring import Measurement, Samples
from lucky_transport_migration.bench.overheads import idle_engine, neighbour_lateness
from lucky_transport_migration.bench.peers.kinds import missing_peers
from lucky_transport_migration.bench.ratios import noise_floor, ratios
from lucky_transport_migration.bench.rounds import measure_peer, measure_setup
from lucky_transport_migration.bench.rows import idle_row, step_row, threads_row
from lucky_transport_migration.bench.setups import AnySetup, PeerSetup
from lucky_transport_migration.bench.stats import WHOLE
from lucky_transport_migration.bench.verdict import verdict
from lucky_transport_migration.paths import label

__all__ = ["BenchResults", "bench_result", "estimate_s", "pieces", "run_bench"]

_PEER_NOTES = (
    "a peer moves the same bytes as a step: actions and control there, observations, rewards and flags back; all of "
    "them are driven by Python, numbers are checked, nothing is checked that the way itself does not check",
    "a peer sends its frame in every row, also where our engine does nothing; rows with an engine that copies its "
    "frame compare like with like",
    "AsyncVectorEnv has one process per env, so it is measured up to 64 envs; its engine CPU is that of all workers",
)
_START_S = 0.9  # an engine process: started, connected, ended


@dataclass
class BenchResults:
    """All measurements of a bench, by cell, one per round; `twins` are the second halves of A/A pairs."""

    cells: dict[Cell, list[Measurement]] = field(default_factory=dict[Cell, list[Measurement]])
    twins: dict[Cell, list[Measurement]] = field(default_factory=dict[Cell, list[Measurement]])
    idle: dict[tuple[str, str | None], list[float]] = field(default_factory=dict[tuple[str, str | None], list[float]])
    threads: dict[tuple[str, str | None], list[Samples]] = field(
        default_factory=dict[tuple[str, str | None], list[Samples]]
    )
    notes: list[str] = field(default_factory=list[str])

    def note(self, text: str) -> None:
        """Add a note once."""
        if text not in self.notes:
            self.notes.append(text)


def _attachments(plan: BenchPlan) -> Iterator[tuple[str, str | None]]:
    """Yield (path, wait) of what the suites beside the steps look at."""
    for path in plan.paths:
        if path != "inproc":
            for wait in plan.waits_of(path):
                yield path, wait


def pieces(plan: BenchPlan) -> int:
    """Return how many times `run_bench` calls `advance`."""
    suites = 0 if plan.engine != IDLE else 2 * len(list(_attachments(plan))) + 1
    return plan.rounds * len(list(setups_of(plan))) + suites


def estimate_s(plan: BenchPlan) -> float:
    """Return about how long the bench will take."""
    effort = plan.effort
    total = sum(setup.estimate_s(effort) for setup in setups_of(plan))
    suites = 0 if plan.engine != IDLE else len(list(_attachments(plan)))
    return plan.rounds * total + suites * (effort.idle_s + effort.neighbour_s + 2 * _START_S)


def run_bench(plan: BenchPlan, command: str, advance: Callable[..., None] = lambda text="": None) -> dict[str, Any]:
    """Return the bench's result as JSON values; `advance` is called with a text before each piece of work is done.

    Raises what starting and driving the engines raises, and RemoteProtocolError when frames were lost or torn.
    """
    results, load = BenchResults(), os.getloadavg()[0]
    absent = missing_peers() if plan.peers else {}
    for name, why in absent.items():
        results.note(f"{label(name)} was not measured: {why}")
    setups = [setup for setup in setups_of(plan) if setup.path not in absent]
    for index in range(plan.rounds):
        for setup in plan.order(setups, index):
            measured = _measure(setup, plan)
            table = results.twins if setup.twin else results.cells
            for cell, measurement in measured.items():
                table.setdefault(cell, []).append(measurement)
            advance(f"round {index + 1}: {setup}")
        if plan.engine == IDLE:
            _measure_limits(results, plan)
    if plan.engine == IDLE:
        _measure_suites(results, plan, advance)
    else:
        results.note(f"{plan.engine} computes, so only VectorEnv rows are given: they hold the engine's time too")
    return bench_result(results, plan, command, load)


def _measure(setup: AnySetup, plan: BenchPlan) -> dict[Cell, Measurement]:
    if isinstance(setup, PeerSetup):
        return measure_peer(setup, plan)
    return measure_setup(setup, plan.options_of(setup.frame_bytes), plan.effort)


def _measure_limits(results: BenchResults, plan: BenchPlan) -> None:
    for cell in limit_cells(plan):
        found = measure_limit(cell, plan)
        if isinstance(found, str):
            results.note(found)
        else:
            results.cells.setdefault(cell, []).append(found)


def _measure_suites(results: BenchResults, plan: BenchPlan, advance: Callable[..., None]) -> None:
    repeats = 1 if plan.rounds < 3 else 2
    for path, wait in _attachments(plan):
        results.idle[path, wait] = [idle_engine(path, wait, plan.options, plan.effort) for _ in range(repeats)]
        advance(f"idle engine: {path} {wait or ''}")
    results.threads["none", None] = [neighbour_lateness(None, None, plan.options, plan.effort)]
    advance("other threads: none")
    for path, wait in _attachments(plan):
        samples = [neighbour_lateness(path, wait, plan.options, plan.effort) for _ in range(repeats)]
        results.threads[path, wait] = samples
        advance(f"other threads: {path} {wait or ''}")


def bench_result(results: BenchResults, plan: BenchPlan, command: str, load: float) -> dict[str, Any]:
    floor = noise_floor(results.cells, results.twins)
    compared = ratios(results.cells, plan, floor)
    if load > len(os.sched_getaffinity(0)) / 4:
        results.note(
            f"the machine was busy before the bench began (load {load:.1f}): "
            "tails and spinning rows are worse than it can do"
        )
    return {
        "version": 1,
        "command": command,
        "engine": plan.engine,
        "rounds": plan.rounds,
        "reference": plan.reference,
        "reference_wait": plan.main_wait(plan.reference),
        "environment": environment.capture(),
        "rows": [step_row(cell, rounds) for cell, rounds in results.cells.items()],
        "surroundings": [
            *(idle_row(path, wait, percents) for (path, wait), percents in results.idle.items()),
            *(threads_row(path, wait, rounds) for (path, wait), rounds in results.threads.items()),
        ],
        "ratios": compared,
        "verdict": verdict(plan.reference, compared, WHOLE, floor),
        "noise_floor": floor,
        "notes": [
            *results.notes,
            *(_PEER_NOTES if plan.peers else ()),
            "p50 is the median over rounds of fresh processes; p99 and beyond come from all rounds' samples together",
            "an open loop counts latency from when a step was due, so waiting for a slow one is not left out",
        ],
    }
