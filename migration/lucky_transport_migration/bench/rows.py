"""From measurements to the rows of a bench's JSON.

`us` holds p50 in every row, the median of the rounds' figures with the lowest and highest round beside it; so any two
rows of one kind can be compared. P99 and beyond come from all rounds' samples together, because a tail needs all the
samples there are; `reliable_to` says how far n supports them, and a table shows no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.suite import BenchSuite, Cell
from lucky_transport_migration.stats import NEEDED, SHARES, percentile, supported


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


def row_of(
    suite: BenchSuite, cell: Cell, rounds: Sequence[Any], floor: float | None, times: float | None
) -> dict[str, Any]:
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
    histogram = Histogram(one.samples_ns for one in rounds)
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


def processes(rounds: Sequence[Any], n: int) -> dict[str, Any]:
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


_LOWEST_NS = 1
_HIGHEST_NS = 3_600_000_000_000
_DIGITS = 3

#: Percentiles at which a curve is drawn; the last is given only as far as the sample supports it.
GRID = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)


class Histogram:
    """Counts of all rounds' durations, from 1 ns to an hour, with three significant digits; `n` is how many."""

    def __init__(self, rounds: Iterable[NDArray[np.int64]]) -> None:
        self._counts: Any = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)
        for samples_ns in rounds:
            values, counts = np.unique(np.clip(samples_ns, _LOWEST_NS, _HIGHEST_NS), return_counts=True)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                self._counts.record_value(value, count)
        self.n = int(self._counts.get_total_count())

    def us(self, share: float) -> float:
        """Return the duration in microseconds that `share` per cent of the samples do not exceed."""
        return round(self._counts.get_value_at_percentile(share) / 1e3, 3)

    def percentiles(self) -> dict[str, float]:
        """Return p50, p99, p999 and max in microseconds; p9999 only when the sample supports it."""
        names = [name for name in SHARES if name != "p9999" or self.n >= NEEDED["p9999"]]
        return {name: self.us(SHARES[name]) for name in names} | {"max": self.us(100.0)}

    def curve(self) -> list[tuple[float, float]]:
        """Return (percentile, microseconds) along `GRID`, up to the highest percentile the sample supports."""
        highest = max(SHARES[name] for name in supported(self.n)) if self.n else 0.0
        return [(share, self.us(share)) for share in GRID if share <= max(highest, 50.0)] if self.n else []

    def encoded(self) -> str:
        """Return the histogram in HdrHistogram's compressed base64 form, which its other tools read."""
        return self._counts.encode().decode("ascii")
