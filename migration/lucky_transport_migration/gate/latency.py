"""Whether the candidate is known to be no slower than the limit allows (non-inferiority).

A method moves on when the upper bound of the ratio is at most the limit; what cannot be said holds it back. In the
middle the two answers to one call are paired: what slows both, a busy machine or a large message, cancels out. The tail
compares the p99 of calls that a caller waited for. The bounds come from the ranks of the samples (bounds.rank_above),
so they hold for latencies of any distribution.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lucky_transport.errors import plural
from lucky_transport_migration.bench.stats import NEEDED, percentile
from lucky_transport_migration.gate.bounds import rank_above, rank_below
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["ENOUGH", "MOST_NOISE", "Latency", "Pairs", "Samples", "Tails", "needed_pairs", "needed_tails"]

#: Calls of each side below which they do not stand for the side.
ENOUGH = 100
#: The largest limit that the noise of an A/A run leads to: on a noisier machine nothing can be judged.
MOST_NOISE = 1.25

#: Durations in microseconds, in any order.
Samples = MutableSequence[float]


@dataclass(frozen=True, slots=True)
class Latency:
    """One percentile of control and candidate, in microseconds.

    times: how many times longer the candidate takes, at_most: the upper bound of that. limit: the largest ratio that is
    allowed, noise: what raised it. calls: pairs, or durations of the side that has fewer.
    """

    percentile: str
    control_us: float
    candidate_us: float
    times: float
    at_most: float
    limit: float
    noise: str
    calls: int

    @property
    def holds_back(self) -> bool:
        """True unless it is shown that the candidate takes no longer than the limit allows."""
        return not self.at_most <= self.limit

    @property
    def sentence(self) -> str:
        """How both compare, in one sentence."""
        paired = "in the middle pair " if self.percentile == "p50" else ""
        limit = f"{times_text(self.limit)}{self.noise}"
        return (
            f"its {self.percentile} is {duration_text(self.candidate_us)}, of the control "
            f"{duration_text(self.control_us)}: {paired}{times_text(self.times)} times as long "
            f"(up to {times_text(self.at_most)} is open), the limit is {limit}{self._remedy}"
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


@dataclass(frozen=True, slots=True)
class _Sides:
    control: Samples
    candidate: Samples

    def __len__(self) -> int:
        return min(len(self.control), len(self.candidate))


@dataclass(frozen=True, slots=True)
class Pairs(_Sides):
    """Durations of control and candidate for the same calls, in one order."""

    def add(self, control_us: float, candidate_us: float) -> None:
        """Take the durations of one more call."""
        self.control.append(control_us)
        self.candidate.append(candidate_us)

    def latency(self, limit: float, noise: str, error: float) -> Latency:
        """Return how the middle of the pairs compares. error: the probability that the true ratio is above `at_most`.

        There are as many pairs as `needed_pairs` says.
        """
        ratios = self._log_ratios()
        at_most = ratios[rank_above(len(self), 0.5, error) - 1]
        control, candidate = (float(np.median(side)) for side in (self.control, self.candidate))
        times = math.exp(np.median(ratios))
        return Latency("p50", control, candidate, times, math.exp(at_most), limit, noise, len(self))

    def noise(self, error: float = 0.05) -> float:
        """Return the lower bound of the ratio, from 1, of an A/A run's slower side to the other; 1 with too few pairs.

        The bound is above the true ratio with probability `error` at most: few samples show less noise, never more.
        """
        found = self.interval(error) if len(self) >= ENOUGH else None
        return 1.0 if found is None else min(MOST_NOISE, max(1.0, found[0], 1 / found[1]))

    def interval(self, error: float) -> tuple[float, float] | None:
        """Return what the middle ratio lies between, but for a probability of `error`; None with too few pairs."""
        if len(self) < needed_pairs(error / 2):
            return None
        ratios, rank = self._log_ratios(), rank_above(len(self), 0.5, error / 2)
        return math.exp(ratios[-rank]), math.exp(ratios[rank - 1])

    def _log_ratios(self) -> Any:
        """Return float64 (len,): the logarithm of each pair's ratio, sorted; a ratio and its inverse weigh the same."""
        return np.sort(np.log(np.asarray(self.candidate) / np.asarray(self.control)))


@dataclass(frozen=True, slots=True)
class Tails(_Sides):
    """Durations of control and candidate, each side's of calls of its own."""

    def latency(self, limit: float, error: float) -> Latency:
        """Return how the p99 compares; both sides have as many samples as `needed_tails` says."""
        ours, theirs = np.sort(self.control), np.sort(self.candidate)
        low = rank_below(ours.size, 0.99, error / 2)  # each side may be wrong with half of the error
        high = rank_above(theirs.size, 0.99, error / 2)
        control, candidate = percentile(ours, 99), percentile(theirs, 99)
        at_most = float(theirs[high - 1] / ours[low - 1])
        return Latency("p99", control, candidate, candidate / control, at_most, limit, "", len(self))


def needed_pairs(error: float) -> int:
    """Return how many pairs the bound of their middle needs at least."""
    return math.ceil(math.log(error) / math.log(0.5))


def needed_tails(error: float) -> int:
    """Return how many durations of each side the bound of a p99 needs at least."""
    return max(NEEDED["p99"], math.ceil(math.log(error / 2) / math.log(0.99)))
