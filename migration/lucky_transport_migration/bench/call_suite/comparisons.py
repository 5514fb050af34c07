"""Ratios between the cells of one run, each with the reference's cell that differs in the way alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lucky_transport_migration.bench.call_suite.cell import CallCell, CallSuite
from lucky_transport_migration.bench.call_suite.rows import Measured, call_row, typical_us
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.stats import Interval, compare, floor_of, floor_sentence, ratio

__all__ = ["call_floor", "call_ratios"]

Cells = Mapping[CallCell, Sequence[Measured]]


def call_floor(suite: CallSuite, cells: Cells, twins: Cells) -> dict[str, Any] | None:
    """Return the A/A ratio: the same cell measured by two fresh pairs per round; None when there was none."""
    for cell, second in twins.items():
        first = cells.get(cell)
        if first:
            interval = _ratio(second, first)
            return {
                "path": cell.path,
                **_rounded(interval),
                "floor": round(floor_of(interval), 4),
                "sentence": floor_sentence(suite.name_of(cell), interval),
                "row": {
                    "suite": suite.name,
                    "title": suite.title_of(cell),
                    **suite.columns(cell),
                    **call_row(cell, second),
                },
            }
    return None


def call_ratios(suite: CallSuite, cells: Cells, plan: Plan, floor: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, word and sentence.

    `main` marks those between ways to an engine, the reference's in the strategy that stands for it.
    """
    noise = 1.0 if floor is None else float(floor["floor"])
    found: list[dict[str, Any]] = []
    for cell, other in _pairs(suite, cells, plan.reference):
        interval = _ratio(cells[other], cells[cell])
        verdict = compare(suite.name_of(cell), suite.name_of(other), interval, noise)
        title = suite.title_of(cell)
        row = asdict(cell) | {"title": title, "of": cell.path, "to": other.path, "to_wait": other.wait}
        row |= _rounded(interval) | {"rounds": interval.rounds, "word": verdict.word.value}
        row["main"] = suite.compares_ways(cell) and cell.wait == plan.main_wait(cell.path)
        found.append(row | {"sentence": f"{title}: {verdict.sentence}"})
    return found


def _pairs(suite: CallSuite, cells: Cells, reference: str) -> Iterator[tuple[CallCell, CallCell]]:
    """Yield (ours, theirs): the reference in each of its waiting strategies against every other path."""
    for cell in cells:
        if cell.path != suite.ours.get(cell.kind, reference) or cell.kind in suite.apart:
            continue
        for other in cells:
            if other.path != cell.path and other == cell.over(other.path, None):
                yield cell, other


def _ratio(over: Sequence[Measured], under: Sequence[Measured]) -> Interval:
    return ratio([typical_us(one) for one in over], [typical_us(one) for one in under])


def _rounded(interval: Interval) -> dict[str, float]:
    return interval.row()
