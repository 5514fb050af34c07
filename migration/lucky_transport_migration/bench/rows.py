"""From measurements to the rows of a bench's JSON.

`us` holds p50 in every row, the median of the rounds' figures with the lowest and highest round beside it; so any two
rows of one kind can be compared. P99 and beyond come from all rounds' samples together, because a tail needs all the
samples there are; `reliable_to` says how far n supports them, and a table shows no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.measuring import Measurement, Samples
from lucky_transport_migration.bench.stats import percentile, supported
from lucky_transport_migration.bench.suite import Suite

__all__ = ["Measured", "Whole", "distribution", "p50s_us", "processes", "row_of", "summary_us", "typical_us"]


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
    if isinstance(one, Measurement):
        return percentile(one.samples_ns, 50.0) / 1e3
    return one.us_each


def p50s_us(rounds: Sequence[Measured]) -> list[float]:
    """Return each round's figure in microseconds."""
    return [typical_us(one) for one in rounds]


def row_of(suite: Suite[Any], cell: Any, rounds: Sequence[Any], floors: Mapping[Any, float]) -> dict[str, Any]:
    """Return the row of a cell; `rounds` holds measurements of one kind, `floors` the A/A floor of each kind."""
    typical = p50s_us(rounds)
    row: dict[str, Any] = {
        "suite": suite.name,
        "title": suite.title_of(cell),
        **suite.columns(cell),
        **asdict(cell),
        "rounds": len(rounds),
        "p50s": [round(one, 3) for one in typical],
        "looked_at": getattr(rounds[0], "looked_at", ""),
        "floor": floors.get(suite.kind_of(cell)),
    }
    first = rounds[0]
    if not isinstance(first, Measurement):
        n = sum(one.n for one in rounds)
        return row | {"n": n, "us": _middle_us(typical), "reliable_to": "p50", **first.columns(rounds)}
    row |= distribution([one.samples_ns for one in rounds], typical)
    warm = [one.warmup_ns for one in rounds if one.warmup_ns.size]
    return row | {
        **processes(rounds, row["n"], suite.cpu_key),
        "rate_achieved": None if cell.rate_hz is None else all(one.rate_achieved for one in rounds),
        "warmup": {
            "n": sum(one.size for one in warm),
            "first_us": round(float(np.median([one[0] for one in warm])) / 1e3, 3),
            "p50_us": round(percentile(np.concatenate(warm), 50.0) / 1e3, 3),
        },
    }


def distribution(samples: Sequence[Samples], typical: Sequence[float]) -> dict[str, Any]:
    """Return what a row says of single durations; `typical` is each round's figure in microseconds."""
    histogram = Histogram.of(samples)
    return {
        "n": histogram.n,
        "us": summary_us(typical, histogram),
        "reliable_to": supported(histogram.n)[-1],
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
    }


def summary_us(typical: Sequence[float], histogram: Histogram) -> dict[str, float]:
    """Return the `us` of a row."""
    return histogram.percentiles() | _middle_us(typical)


def _middle_us(typical: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.median(typical)), 3),
        "p50_min": round(min(typical), 3),
        "p50_max": round(max(typical), 3),
    }


class Processes(Protocol):
    """What every loop in one round says of the two processes."""

    client_cpu_ns: int | None
    engine_cpu_ns: int | None
    same_core: bool | None


def processes(rounds: Sequence[Processes], n: int, each_key: str = "cpu_us_each") -> dict[str, Any]:
    """Return the CPU time of both processes, whole and for each of `n` items, and on which cores they ran."""
    used = {
        "client": _seconds([one.client_cpu_ns for one in rounds]),
        "engine": _seconds([one.engine_cpu_ns for one in rounds]),
    }
    each = {who: None if seconds is None else round(seconds / n * 1e6, 3) for who, seconds in used.items()}
    return {"cpu_s": used, each_key: each, "placement": _placement(rounds)}


def _seconds(rounds_ns: Sequence[int | None]) -> float | None:
    """Return the sum, None where one side has no process of its own."""
    known = [one for one in rounds_ns if one is not None]
    return round(sum(known) / 1e9, 6) if len(known) == len(rounds_ns) else None


def _placement(rounds: Sequence[Processes]) -> str | None:
    """Return where client and engine ran at the end of each round: on one core, on two, or some on either."""
    seen = {one.same_core for one in rounds} - {None}
    if not seen:
        return None
    return "mixed" if len(seen) == 2 else "one core" if True in seen else "two cores"
