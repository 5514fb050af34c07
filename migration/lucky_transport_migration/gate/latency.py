"""Whether the candidate is slower than the control: one percentile of both, with what chance alone can explain.

Rule 1: slower is what is proven: the lower bound of the ratio must be above the limit. The bound comes from the ranks
        of the samples (binomial.rank_bounds), so it holds for latencies of any distribution.
Rule 2: the limit is not below the ratio that an A/A run shows: that much differs where nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_migration.gate.binomial import rank_bounds
from lucky_transport_migration.stats import NEEDED, SHARES, duration_text, percentile, times_text

__all__ = ["ENOUGH", "Latency", "Samples", "compare_latency", "noise_floor"]

#: Calls of each side below which they do not stand for the side.
ENOUGH = 100

#: Durations in microseconds, in any order.
Samples = Sequence[float]


@dataclass(frozen=True, slots=True)
class Latency:
    """One percentile of control and candidate, in microseconds.

    times: how many times longer the candidate takes, at_least: what of that is proven. limit: the largest ratio that
    is allowed.
    """

    percentile: str
    control_us: float
    candidate_us: float
    times: float
    at_least: float
    limit: float

    @property
    def slower(self) -> bool:
        """True when it is proven that the candidate takes longer than the limit allows."""
        return self.at_least > self.limit

    @property
    def sentence(self) -> str:
        """How both compare, in one sentence."""
        return (
            f"its {self.percentile} is {duration_text(self.candidate_us)}, of the control "
            f"{duration_text(self.control_us)}: {times_text(self.times)} times as long "
            f"(at least {times_text(self.at_least)}), the limit is {times_text(self.limit)}"
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values, ratios and microseconds rounded to what they can mean."""
        rounded = {name: round(value, 4) for name, value in asdict(self).items() if isinstance(value, float)}
        return asdict(self) | rounded | {"slower": self.slower}


def compare_latency(name: str, control: Samples, candidate: Samples, limit: float, doubt: float) -> Latency | None:
    """Return how the percentile `name` ("p50", "p99") compares; None when either side has too few samples to show it.

    doubt: the probability that may remain of calling an equal candidate slower.
    """
    if min(len(control), len(candidate)) < NEEDED[name]:
        return None
    ours, theirs = _sorted(control), _sorted(candidate)
    share = SHARES[name]
    low, _ = rank_bounds(theirs.size, share / 100, doubt)
    _, high = rank_bounds(ours.size, share / 100, doubt)
    known = low >= 1 and high <= ours.size
    at_least = float(theirs[low - 1] / ours[high - 1]) if known else 0.0
    middle, other = percentile(ours, share), percentile(theirs, share)
    return Latency(name, middle, other, other / middle, at_least, limit)


def noise_floor(name: str, first: Samples, second: Samples) -> float:
    """Return the ratio between two equal sides, the larger over the smaller; 1.0 when there are too few samples."""
    if min(len(first), len(second)) < max(NEEDED[name], ENOUGH):
        return 1.0
    ours, theirs = percentile(_sorted(first), SHARES[name]), percentile(_sorted(second), SHARES[name])
    return max(ours / theirs, theirs / ours)


def _sorted(samples: Samples) -> NDArray[Any]:
    return np.sort(np.asarray(samples, np.float64))
