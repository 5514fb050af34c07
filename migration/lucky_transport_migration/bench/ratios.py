"""Ratios between the cells of one run.

Everything is compared with the reference path (shm where it was measured) in its main waiting strategy, cell against
the cell that differs in the path alone. The one exception is named in the row: legacy gRPC is measured with an engine
that does nothing, also where the reference's engine copies its frame, which favours legacy gRPC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.bench_plan import BenchPlan
from lucky_transport_migration.bench.cells import COPY, IDLE, Cell, work_of
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.rows import p50s_us, step_row
from lucky_transport_migration.bench.stats import compare, floor_of, floor_sentence, ratio
from lucky_transport_migration.paths import label

__all__ = ["noise_floor", "ratios"]

Cells = Mapping[Cell, Sequence[Measurement]]


def noise_floor(cells: Cells, twins: Cells) -> dict[str, Any] | None:
    """Return the A/A ratio: the same cell measured by two fresh pairs per round; None when there was none.

    `floor` is that ratio, taken upwards. How much it scatters is in each ratio's own interval already. `row` is that of
    the second pairs.
    """
    for cell, second in twins.items():
        first = cells.get(cell)
        if cell.rate_hz is None and first:
            interval = ratio(p50s_us(second), p50s_us(first))
            return {
                "path": cell.path,
                "num_envs": cell.num_envs,
                **interval.row(),
                "floor": round(floor_of(interval), 4),
                "sentence": floor_sentence(label(cell.path), interval),
                "row": step_row(cell, second),
            }
    return None


def ratios(cells: Cells, plan: BenchPlan, floor: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, word and sentence."""
    noise = 1.0 if floor is None else float(floor["floor"])
    found: list[dict[str, Any]] = []
    for cell, others in _comparisons(cells, plan):
        for other in others:
            interval = ratio(p50s_us(cells[other]), p50s_us(cells[cell]))
            ours, theirs = _name(cell, other), _name(other, cell)
            verdict = compare(ours, theirs, interval, noise)
            found.append(
                {
                    "of": cell.path,
                    "to": other.path,
                    "wait": cell.wait,
                    "to_wait": other.wait,
                    "level": cell.level,
                    "num_envs": cell.num_envs,
                    "engine": cell.engine,
                    "to_engine": other.engine,
                    "copy": cell.copy,
                    "rate_hz": cell.rate_hz,
                    "frame_bytes": cell.frame_bytes,
                    **interval.row(),
                    "rounds": interval.rounds,
                    "word": verdict.word.value,
                    "sentence": f"{_where(cell)}: {verdict.sentence}",
                }
            )
    return found


def _comparisons(cells: Cells, plan: BenchPlan) -> Iterator[tuple[Cell, list[Cell]]]:
    """Yield each cell of the reference with the cells it is compared with."""
    for cell in cells:
        if cell.path != plan.reference or cell.wait != plan.main_wait(cell.path) or cell.actions == "inplace":
            continue
        others = [other for other in cells if other != cell and _comparable(cell, other)]
        if others:
            yield cell, others


def _comparable(cell: Cell, other: Cell) -> bool:
    if other.actions == "inplace":
        return False
    wanted = replace(cell, path=other.path, wait=other.wait, observations=other.observations)
    if other.path == "grpc" and cell.engine == COPY and cell.frame_bytes is None:
        wanted = replace(wanted, engine=IDLE)
    return other == wanted


def _name(cell: Cell, other: Cell) -> str:
    """Return what a sentence calls a cell: with its waiting strategy where the other is of the same path."""
    if cell.path == "limit":
        return f"the native {cell.wait} limit"
    return f"{label(cell.path)} ({cell.wait})" if cell.path == other.path and cell.wait else label(cell.path)


def _where(cell: Cell) -> str:
    envs = plural(cell.num_envs, "env")
    level = "one exchange" if cell.level == "transport" else f"VectorEnv.step(copy={cell.copy})"
    rate = f", {cell.rate_hz} steps a second" if cell.rate_hz else ""
    return f"{envs}, {level}{work_of(cell.engine, cell.frame_bytes)}{rate}"
