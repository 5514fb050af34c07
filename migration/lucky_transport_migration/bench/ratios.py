"""Ratios between the cells of one run, each with the reference's cell that differs in the way alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured, p50s_us, row_of
from lucky_transport_migration.bench.stats import compare, floor_of, floor_sentence, ratio
from lucky_transport_migration.bench.suite import Suite

__all__ = ["noise_floor", "ratios"]

Cells = Mapping[Any, Sequence[Measured]]


def noise_floor(suite: Suite[Any], cells: Cells, twins: Cells) -> dict[str, Any] | None:
    """Return the A/A ratio: the same cell measured by two fresh pairs per round; None when there was none.

    `floor` is the farther end of its interval. `row` is that of the second pairs.
    """
    for cell, second in twins.items():
        first = cells.get(cell)
        if cell.rate_hz is None and first:
            interval = ratio(p50s_us(second), p50s_us(first))
            row = row_of(suite, cell, second)
            return {
                "path": cell.path,
                **{key: row[key] for key in ("num_envs",) if key in row},
                **interval.row(),
                "floor": round(floor_of(interval), 4),
                "sentence": floor_sentence(suite.name_of(cell), interval),
                "row": row,
            }
    return None


def ratios(suite: Suite[Any], cells: Cells, plan: Plan, floor: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, word and sentence.

    `main` marks those between ways to an engine, the reference's in the strategy that stands for it.
    """
    noise = 1.0 if floor is None else float(floor["floor"])
    found: list[dict[str, Any]] = []
    for cell, other in suite.pairs(cells, plan):
        interval = ratio(p50s_us(cells[other]), p50s_us(cells[cell]))
        verdict = compare(suite.name_of(cell, other), suite.name_of(other, cell), interval, noise)
        title = suite.title_of(cell)
        found.append(
            {
                **asdict(cell),
                "title": title,
                "of": cell.path,
                "to": other.path,
                "to_wait": other.wait,
                **suite.ratio_columns(other),
                **interval.row(),
                "rounds": interval.rounds,
                "word": verdict.word.value,
                "main": suite.is_main(cell, plan),
                "sentence": f"{title}: {verdict.sentence}",
            }
        )
    return found
