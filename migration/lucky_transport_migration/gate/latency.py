"""Whether the candidate is known to be no slower than the limit allows (non-inferiority): one percentile of both.

A method moves on when the upper bound of the ratio is at most the limit. What cannot be said holds it back. The bound
comes from the ranks of the samples (binomial.rank_bounds), so it holds for latencies of any distribution. An A/A run
raises the limit to the ratio that it shows, because that much differs where nothing does, but not above MOST_NOISE: on
a machine noisier than that nothing can be judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import plural
from lucky_transport_migration.bench.stats import NEEDED, SHARES, percentile
from lucky_transport_migration.gate.binomial import rank_bounds
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["ENOUGH", "MOST_NOISE", "Latency", "Samples", "compare_latency", "needed_samples", "noise_limit"]

#: Calls of each side below which they do not stand for the side.
ENOUGH = 100
#: The largest limit that the noise of an A/A run leads to.
MOST_NOISE = 1.25

#: Durations in microseconds, in any order.
Samples = Sequence[float]


@dataclass(frozen=True, slots=True)
class Latency:
    """One percentile of control and candidate, in microseconds.

    times: how many times longer the candidate takes, at_most: the upper bound of that. limit: the largest ratio that is
    allowed. calls: durations of the side that has fewer.
    """

    percentile: str
    control_us: float
    candidate_us: float
    times: float
    at_most: float
    limit: float
    calls: int

    @property
    def holds_back(self) -> bool:
        """True unless it is shown that the candidate takes no longer than the limit allows."""
        return not self.at_most <= self.limit

    @property
    def sentence(self) -> str:
        """How both compare, in one sentence."""
        return (
            f"its {self.percentile} is {duration_text(self.candidate_us)}, of the control "
            f"{duration_text(self.control_us)}: {times_text(self.times)} times as long "
            f"(up to {times_text(self.at_most)} is open), the limit is {times_text(self.limit)}{self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        """About how many more calls would show it, if more calls can: a bound narrows by the root of their number."""
        if not self.holds_back or self.times >= self.limit:
            return ""
        factor = (math.log(self.at_most / self.times) / math.log(self.limit / self.times)) ** 2
        more = max(1, int(float(f"{(factor - 1) * self.calls:.1g}")))
        return f"; about {plural(more, 'more call')} could show that it is kept"

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values, ratios and microseconds rounded to what they can mean."""
        rounded = {name: round(value, 4) for name, value in asdict(self).items() if isinstance(value, float)}
        return asdict(self) | rounded | {"holds_back": self.holds_back}


def needed_samples(name: str, error: float) -> int:
    """Return how many durations of each side the bound of a percentile needs; error: see `compare_latency`."""
    share = SHARES[name] / 100
    return max(NEEDED[name], math.ceil(math.log(error / 2) / math.log(max(share, 1 - share))))


def compare_latency(name: str, control: Samples, candidate: Samples, limit: float, error: float) -> Latency:
    """Return how the percentile `name` ("p50", "p99") compares; both sides have the samples that it needs.

    error: the probability that the true ratio is above `at_most`.
    """
    ours, theirs = _sorted(control), _sorted(candidate)
    share = SHARES[name]
    low, _ = rank_bounds(ours.size, share / 100, error)  # each side may be wrong with half of the error
    _, high = rank_bounds(theirs.size, share / 100, error)
    at_most = float(theirs[high - 1] / ours[low - 1])
    middle, other = percentile(ours, share), percentile(theirs, share)
    return Latency(name, middle, other, other / middle, at_most, limit, min(ours.size, theirs.size))


def noise_limit(name: str, limit: float, first: Samples, second: Samples) -> float:
    """Return the limit that the noise of an A/A run, its two sides, makes of `limit`."""
    if min(len(first), len(second)) < max(NEEDED[name], ENOUGH):
        return limit
    ours, theirs = percentile(_sorted(first), SHARES[name]), percentile(_sorted(second), SHARES[name])
    return max(limit, min(MOST_NOISE, max(ours / theirs, theirs / ours)))


def _sorted(samples: Samples) -> NDArray[Any]:
    return np.sort(np.asarray(samples, np.float64))
