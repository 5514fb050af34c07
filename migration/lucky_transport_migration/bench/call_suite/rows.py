"""From measurements to the rows of a suite's JSON.

`us` holds p50 in every row: of a call's latency, of the time per item or step of what is timed as a whole; so any two
rows of one kind can be compared. Percentiles beyond p50 are those of single calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lucky_transport_migration.bench.call_suite.cell import CallCell
from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.measuring import Measurement, Samples
from lucky_transport_migration.bench.rows import processes, summary_us
from lucky_transport_migration.bench.stats import percentile, supported

__all__ = ["Measured", "Whole", "call_row", "typical_us"]


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


Measured = Measurement | Samples | Whole


def typical_us(one: Measured) -> float:
    """Return a round's figure in microseconds: p50 of its calls, or the mean time of an item."""
    if isinstance(one, Measurement):
        return percentile(one.samples_ns, 50.0) / 1e3
    return percentile(one, 50.0) / 1e3 if isinstance(one, np.ndarray) else one.us_each


def call_row(cell: CallCell, rounds: Sequence[Any]) -> dict[str, Any]:
    """Return the row of a cell; `rounds` holds measurements of one kind."""
    typical = [typical_us(one) for one in rounds]
    row: dict[str, Any] = {**asdict(cell), "rounds": len(rounds), "p50s": [round(one, 3) for one in typical]}
    first = rounds[0]
    if isinstance(first, Measurement):
        return row | _calls(cell, rounds, typical)
    if isinstance(first, np.ndarray):
        return row | _distribution(rounds, typical)
    return row | {
        "n": sum(one.n for one in rounds),
        "us": _plain_us(typical),
        "reliable_to": "p50",
        **first.columns(rounds),
    }


def _calls(cell: CallCell, rounds: Sequence[Measurement], typical: Sequence[float]) -> dict[str, Any]:
    found = _distribution([one.samples_ns for one in rounds], typical)
    return {
        **found,
        **processes(rounds, found["n"]),
        "rate_achieved": None if cell.rate_hz is None else all(one.rate_achieved for one in rounds),
        "warmup": {"n": sum(one.warmup_ns.size for one in rounds)},
    }


def _distribution(samples: Sequence[Samples], typical: Sequence[float]) -> dict[str, Any]:
    histogram = Histogram.of(samples)
    return {
        "n": histogram.n,
        "us": summary_us(typical, histogram),
        "reliable_to": supported(histogram.n)[-1],
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
    }


def _plain_us(typical: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.median(typical)), 3),
        "p50_min": round(min(typical), 3),
        "p50_max": round(max(typical), 3),
    }
