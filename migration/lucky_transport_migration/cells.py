"""What a bench measures: cells (one row each) in setups (one fresh pair of processes each).

Rule 1: all cells of a setup share its processes and its connection; a comparison is between setups of one round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lucky_transport_migration.measuring import Effort
from lucky_transport_migration.plan import Plan

__all__ = ["COPY", "IDLE", "STEPPING", "BenchPlan", "Cell", "Setup", "plan_of", "setups_of", "work_of"]

IDLE, COPY, STEPPING = "toy:idle", "toy:copy", "toy"
OPEN_LOOP_HZ = 50  # the rate at which the users of such engines step them

#: The effort of `--quick`: a first look and a test that everything runs, no figures to quote.
QUICK = Effort(budget_s=0.02, least=1, most=2_000, open_loop_s=0.2, idle_s=0.3, neighbour_s=0.2)

_WORK = {COPY: ", engine copies its frame", STEPPING: ", toy engine at work"}

Place = Literal["copy", "inplace"]


def work_of(engine: str) -> str:
    """Return what a title says of the engine's work, "" for one that does nothing."""
    return _WORK.get(engine, "")


@dataclass(frozen=True, slots=True)
class Cell:
    """One row's key. `actions` and `observations`: copied, or written and read in place. `copy`: VectorEnv's."""

    level: Literal["transport", "env"]
    path: str
    wait: str | None
    num_envs: int
    engine: str
    actions: Place = "copy"
    observations: Place = "copy"
    copy: bool | None = None
    rate_hz: int | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """One engine process with one client. `twin` marks the second measurement of an A/A pair."""

    path: str
    wait: str | None
    num_envs: int
    engine: str
    full: bool = True  # False: only the plain transport rows; the waiting strategies differ nowhere else
    open_loop: bool = False
    twin: bool = False

    def cells(self, *, zero_copy: bool) -> list[Cell]:
        """Return what to measure over a transport that has frames in place or not."""
        observations: Place = "inplace" if zero_copy else "copy"
        key = (self.path, self.wait, self.num_envs, self.engine)
        idle = self.engine == IDLE
        cells: list[Cell] = []
        if self.engine in (IDLE, COPY):
            cells.append(Cell("transport", *key, "copy", observations))
        if idle and self.open_loop:
            cells.append(Cell("transport", *key, "copy", observations, rate_hz=OPEN_LOOP_HZ))
        if self.twin or not self.full:
            return cells
        if zero_copy and idle:
            cells.append(Cell("transport", *key, "inplace", observations))
        cells.append(Cell("env", *key, "copy", "copy", copy=True))
        if zero_copy:
            cells.append(Cell("env", *key, "copy", observations, copy=False))
        return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan(Plan):
    """What the command line asked for. `options` go to the engine's constructor."""

    engine: str
    num_envs: tuple[int, ...]


def setups_of(plan: BenchPlan) -> Iterator[Setup]:
    """Yield the setups of one round, those of one num_envs together."""
    engines = (IDLE, COPY) if plan.engine == IDLE else (plan.engine,)
    smallest = min(plan.num_envs)
    for num_envs in plan.num_envs:
        for engine in engines:
            for path in plan.paths:
                if path == "grpc" and engine == COPY:
                    continue  # each of its Steps would copy the whole batch's frame: the engine's cost, not the wire's
                waits = plan.waits_of(path)
                for wait in waits if engine != COPY else (plan.main_wait(path),):
                    opens = num_envs == smallest and path != "inproc"
                    yield Setup(path, wait, num_envs, engine, full=wait == plan.main_wait(path), open_loop=opens)
        if num_envs == max(plan.num_envs) and engines[0] == IDLE:
            for path in plan.paths:
                if path != "grpc":  # thousands of legacy Steps of an engine at work say nothing new
                    yield Setup(path, plan.main_wait(path), num_envs, STEPPING)
        if num_envs == smallest and engines[0] == IDLE and "shm" in plan.paths:
            yield Setup("shm-python", None, num_envs, IDLE, full=False)
        if num_envs == smallest and engines[0] == IDLE:
            yield Setup(plan.reference, plan.main_wait(plan.reference), num_envs, IDLE, twin=True)


def plan_of(
    engine: str,
    transports: Sequence[str],
    num_envs: Sequence[int] | None,
    waits: Sequence[str] | None,
    options: dict[str, Any],
    *,
    rounds: int,
    quick: bool,
) -> BenchPlan:
    """Return the plan of a command line; `grpc` stands for the legacy Steps and for the batch service.

    A quick plan has one round of short loops, and fewer sizes and strategies where none were asked for.
    """
    num_envs = num_envs or ((1, 64) if quick else (1, 64, 4096))
    waits = waits or (("adaptive",) if quick else ("adaptive", "block", "spin"))
    paths: list[str] = []
    for name in transports:
        paths += [path for path in (("grpc", "grpc-batch") if name == "grpc" else (name,)) if path not in paths]
    return BenchPlan(
        engine=engine,
        paths=tuple(paths),
        num_envs=tuple(num_envs),
        waits=tuple(waits),
        options=dict(options),
        rounds=1 if quick else rounds,
        effort=QUICK if quick else Effort(),
    )
