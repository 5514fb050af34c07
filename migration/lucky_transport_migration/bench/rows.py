"""From measurements to the rows of a bench's JSON.

`us` holds p50 in every row, the median of the rounds' figures with the lowest and highest round beside it; so any two
rows of one kind can be compared. P99 and beyond come from all rounds' samples together, because a tail needs all the
samples there are; `reliable_to` says how far n supports them, and a table shows no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.suite import Cell, Suite
from lucky_transport_migration.stats import percentile, supported


@runtime_checkable
class Whole(Protocol):
    """A round of which only the whole is timed: `n` items of `us_each` microseconds."""

    n: int

    @property
    def us_each(self) -> float: ...

    @staticmethod
    def columns(rounds: Sequence[Any]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""
        ...


Measured = Measurement | Whole


def typical_us(one: Measured) -> float:
    """Return a round's figure in microseconds: p50 of its steps or calls, or the mean time of an item."""
    return percentile(one.samples_ns, 50.0) / 1e3 if isinstance(one, Measurement) else one.us_each


def p50s_us(rounds: Sequence[Measured]) -> list[float]:
    """Return each round's figure in microseconds."""
    return [typical_us(one) for one in rounds]


def row_of(suite: Suite, cell: Cell, rounds: Sequence[Any], floor: float | None, times: float | None) -> dict[str, Any]:
    """Return the row of a cell; `rounds` holds measurements of one kind.

    The row carries its table: its title, the table and the column where it stands at a glance, what its way is called
    and how many `times` as long as the reference it takes. floor: the A/A floor of its kind.
    """
    table, column = suite.place(cell)
    p50s, first = p50s_us(rounds), rounds[0]
    row: dict[str, Any] = {
        "suite": suite.name,
        "title": suite.title_of(cell),
        "table": table,
        "column": column,
        "glance": cell.kind not in suite.more and cell.what not in suite.more,
        "way": cell.way,
        "again": False,
        "times": times,
        **asdict(cell),
        "rounds": len(rounds),
        "p50s": [round(one, 3) for one in p50s],
        "looked_at": getattr(first, "looked_at", ""),
        "floor": floor,
    }
    us = {"p50": _rounded(np.median(p50s)), "p50_min": _rounded(min(p50s)), "p50_max": _rounded(max(p50s))}
    if not isinstance(first, Measurement):
        return row | {"n": sum(one.n for one in rounds), "us": us, "reliable_to": "p50", **first.columns(rounds)}
    histogram = Histogram.of(one.samples_ns for one in rounds)
    warm = [one.warmup_ns for one in rounds if one.warmup_ns.size]
    return row | {
        "n": histogram.n,
        "us": histogram.percentiles() | us,
        "reliable_to": supported(histogram.n)[-1],
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
        **processes(rounds, histogram.n),
        "rate_achieved": None if cell.rate_hz is None else all(one.rate_achieved for one in rounds),
        "warmup": {
            "n": sum(one.size for one in warm),
            "first_us": _rounded(np.median([one[0] for one in warm]) / 1e3),
            "p50_us": _rounded(percentile(np.concatenate(warm), 50.0) / 1e3),
        },
    }


def _rounded(value: Any) -> float:
    return round(float(value), 3)


class Processes(Protocol):
    """What every loop in one round says of the two processes."""

    client_cpu_ns: int | None
    engine_cpu_ns: int | None
    same_core: bool | None


def processes(rounds: Sequence[Processes], n: int) -> dict[str, Any]:
    """Return the CPU time of both processes, whole and for each of `n` items, and on which cores they ran."""
    used = {
        "client": _seconds([one.client_cpu_ns for one in rounds]),
        "engine": _seconds([one.engine_cpu_ns for one in rounds]),
    }
    each = {who: None if seconds is None else round(seconds / n * 1e6, 3) for who, seconds in used.items()}
    seen = {one.same_core for one in rounds} - {None}
    where = "mixed" if len(seen) == 2 else "one core" if True in seen else "two cores" if seen else None
    return {"cpu_s": used, "cpu_us_each": each, "placement": where}


def _seconds(rounds_ns: Sequence[int | None]) -> float | None:
    """Return the sum, None where one side has no process of its own."""
    known = [one for one in rounds_ns if one is not None]
    return round(sum(known) / 1e9, 6) if len(known) == len(rounds_ns) else None
