"""Ratios between the cells of one run, each with the reference's cell that differs in the way alone, and the verdict.

What is decided is whether a switch from gRPC pays; the machine's limits are told apart from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lucky_transport_migration.bench.rows import Measured, p50s_us
from lucky_transport_migration.bench.suite import BenchSuite, Cell, Plan
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import Overall, Word, compare, floor_of, floor_sentence, overall, ratio
from lucky_transport_migration.table import INCONCLUSIVE
from lucky_transport_migration.units import times_text

Cells = Mapping[Cell, Sequence[Measured]]

#: The A/A ratio from which on a run is inconclusive.
MOST_NOISE = 1.5


def floors(suite: BenchSuite, cells: Cells, twins: Cells) -> dict[Cell, float]:
    """Return the A/A floor of each kind of cells that was measured by two fresh pairs per round."""
    return {
        suite.kind_of(cell): round(floor_of(ratio(p50s_us(second), p50s_us(cells[cell]))), 4)
        for cell, second in twins.items()
        if cell in cells
    }


def noise_floor(suite: BenchSuite, cells: Cells, twins: Cells, known: Mapping[Cell, float]) -> dict[str, Any] | None:
    """Return the A/A ratio of the first cell that was measured twice, for all to see; None when there was none.

    `known` are the floors of all kinds.
    """
    for cell in twins:
        if cell in cells:
            interval = ratio(p50s_us(twins[cell]), p50s_us(cells[cell]))
            sentence = floor_sentence(cell.way, interval, list(known.values()))
            return {"path": cell.path, **interval.row(), "floor": known[suite.kind_of(cell)], "sentence": sentence}
    return None


def ratios(suite: BenchSuite, cells: Cells, plan: Plan, known: Mapping[Cell, float]) -> list[dict[str, Any]]:
    """Return one row per comparison, each with its interval, the A/A floor of its kind, word and sentence.

    `main` marks those between ways to an engine, `lead` those that are read first. A kind without an A/A pair is judged
    by the largest floor.
    """
    largest = max(known.values(), default=1.0)
    lead = [kind for kind in suite.lead if any(cell.kind == kind for cell in cells)][:1]
    found: list[dict[str, Any]] = []
    for cell, other in suite.pairs(cells, plan):
        interval, title = ratio(p50s_us(cells[other]), p50s_us(cells[cell])), suite.title_of(cell)
        noise = known.get(suite.kind_of(cell), largest)
        said = compare(cell.way, other.way, interval, noise)
        main = other.path not in (cell.path, "limit")
        found.append(
            {
                **asdict(cell),
                "title": title,
                "of": cell.path,
                "to": other.path,
                "to_wait": other.wait,
                **interval.row(),
                "floor": noise,
                "rounds": interval.rounds,
                "word": said.word.value,
                "main": main,
                "lead": main and (not suite.lead or (cell.kind in lead and _is_usual(cell, suite, plan))),
                "sentence": f"{title}: {said.sentence}",
            }
        )
    return found


def _is_usual(cell: Cell, suite: BenchSuite, plan: Plan) -> bool:
    return cell.rate_hz is None and cell.what == (plan.engine or suite.engine)


def verdict(
    reference: str,
    found: Sequence[Mapping[str, Any]],
    looked_at: Sequence[str],
    floor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the run's verdict on `reference`: word, sentence, and the sentences that go with it.

    found: the ratios that decide. `looked_at` says what was looked at while it was timed; floor: the A/A ratio, from
    which on nothing is concluded.
    """
    grpc = [one for one in found if one["to"].startswith("grpc")]
    name = label(reference)
    asked = grpc if grpc and not reference.startswith("grpc") else found
    words = [Word(one["word"]) for one in asked]
    main = overall(f"{name[:1].upper()}{name[1:]}", "gRPC" if asked is grpc else "the other transports", words)
    noise = 1.0 if floor is None else max(floor["ratio"], 1 / floor["ratio"])
    if noise > MOST_NOISE and main.word is not Overall.UNKNOWN:
        sentence = (
            f"The machine was too noisy: measured twice (A/A), {name} differed from itself by a factor of "
            f"{times_text(noise)}, more than {times_text(MOST_NOISE)}. Run it again where nothing else runs."
        )
        return {"word": INCONCLUSIVE, "sentence": sentence, "beside": [*looked_at]}
    return {"word": main.word.value, "sentence": main.sentence, "beside": [*looked_at]}
