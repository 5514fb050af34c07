"""Ratios between the cells of one run, each with the reference's cell that differs in the way alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured, p50s_us, row_of
from lucky_transport_migration.bench.stats import compare, floor_of, floor_sentence, ratio
from lucky_transport_migration.bench.suite import Suite

__all__ = ["floors", "noise_floor", "ratios"]

Cells = Mapping[Any, Sequence[Measured]]


def floors(suite: Suite[Any], cells: Cells, twins: Cells) -> dict[Any, float]:
    """Return the A/A floor of each kind of cells that was measured by two fresh pairs per round."""
    return {
        suite.kind_of(cell): round(floor_of(ratio(p50s_us(second), p50s_us(cells[cell]))), 4)
        for cell, second in twins.items()
        if cell in cells
    }


def noise_floor(suite: Suite[Any], cells: Cells, twins: Cells, known: Mapping[Any, float]) -> dict[str, Any] | None:
    """Return the A/A ratio of the first cell that was measured twice, for all to see; None when there was none.

    `row` is that of the second pairs; `known` are the floors of all kinds.
    """
    cell = next((cell for cell in twins if cell in cells), None)
    if cell is None:
        return None
    interval, row = ratio(p50s_us(twins[cell]), p50s_us(cells[cell])), row_of(suite, cell, twins[cell], known)
    return {
        "path": cell.path,
        **{key: row[key] for key in ("num_envs",) if key in row},
        **interval.row(),
        "floor": known[suite.kind_of(cell)],
        "sentence": floor_sentence(suite.name_of(cell), interval, list(known.values())),
        "row": row,
    }


def ratios(suite: Suite[Any], cells: Cells, plan: Plan, known: Mapping[Any, float]) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, the A/A floor of its kind, word and sentence.

    `main` marks those between ways to an engine, the reference's in the strategy that stands for it. A kind without an
    A/A pair is judged by the largest floor.
    """
    largest = max(known.values(), default=1.0)
    found: list[dict[str, Any]] = []
    for cell, other in suite.pairs(cells, plan):
        interval = ratio(p50s_us(cells[other]), p50s_us(cells[cell]))
        noise = known.get(suite.kind_of(cell), largest)
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
                "floor": noise,
                "rounds": interval.rounds,
                "word": verdict.word.value,
                "main": suite.is_main(cell, plan),
                "sentence": f"{title}: {verdict.sentence}",
            }
        )
    return found
