"""Latencies as HDR histograms: a range from 1 ns to an hour with three significant digits, mergeable over rounds.

Durations are integers in nanoseconds up to here and microseconds (float) beyond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from lucky_transport_migration.stats import NEEDED, SHARES, supported

_LOWEST_NS = 1
_HIGHEST_NS = 3_600_000_000_000
_DIGITS = 3

#: Percentiles at which a curve is drawn; the last is given only as far as the sample supports it.
GRID = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)


class Histogram:
    """Counts of durations."""

    def __init__(self) -> None:
        self._counts: Any = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)

    @classmethod
    def of(cls, rounds: Iterable[NDArray[np.int64]]) -> Histogram:
        """Return the histogram of all rounds' samples (int64, nanoseconds)."""
        made = cls()
        for samples in rounds:
            made.add(samples)
        return made

    def add(self, samples_ns: NDArray[np.int64]) -> None:
        """Count each of `samples_ns`; those below 1 ns count as 1 ns."""
        values, counts = np.unique(np.maximum(samples_ns, _LOWEST_NS), return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._counts.record_value(min(value, _HIGHEST_NS), count)

    @property
    def n(self) -> int:
        """How many samples were counted."""
        return int(self._counts.get_total_count())

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
