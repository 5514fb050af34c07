"""Whether the candidate is known to be no slower than the limit allows (non-inferiority).

A method moves on when the upper bound of the ratio is at most the limit; what cannot be said holds it back. In the
middle the two answers to one call are paired: what slows both, a busy machine or a large message, cancels out. The tail
compares the p99 of calls that a caller waited for. Each block of calls has a ratio of its own, and the bounds come from
how much these differ (bounds.Blocks): they hold where noise lasts, and for latencies of any distribution.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import plural
from lucky_transport_migration.bounds import LEAST_BLOCKS, Blocks, cut, middle_ratio
from lucky_transport_migration.stats import NEEDED
from lucky_transport_migration.units import duration_text, times_text

#: Calls of each side below which they do not stand for the side.
ENOUGH = 100
#: The largest limit that the noise of an A/A run leads to: on a noisier machine nothing can be judged.
MOST_NOISE = 1.25

#: Pairs that the bound of their middle needs at least, and durations of each side that the bound of a p99 does.
ENOUGH_PAIRS, ENOUGH_TAILS = LEAST_BLOCKS, NEEDED["p99"]

#: What is judged of a stream beside its whole duration.
FIRST_ITEM = "time to the first item"

#: Durations in microseconds, in the order of the calls.
Samples = MutableSequence[float]

Logs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Latency:
    """One percentile of control and candidate, in microseconds; FIRST_ITEM is the p50 of the time to it.

    times: how many times longer the candidate takes, at_most: the upper bound of that. limit: the largest ratio that is
    allowed, noise: what raised it. calls: pairs, or durations of the side that has fewer, worth: how many independent
    ones they are worth.
    """

    percentile: str
    control_us: float
    candidate_us: float
    times: float
    at_most: float
    limit: float
    noise: str
    calls: int
    worth: int

    @property
    def holds_back(self) -> bool:
        """True unless it is shown that the candidate takes no longer than the limit allows."""
        return not self.at_most <= self.limit

    @property
    def sentence(self) -> str:
        """How both compare, in one sentence."""
        ours, theirs = duration_text(self.control_us), duration_text(self.candidate_us)
        paired = "" if self.percentile == "p99" else "in the middle pair "
        ratio = f"{paired}{times_text(self.times)} times as long (up to {times_text(self.at_most)} is open)"
        limit = f"the limit is {times_text(self.limit)}{self.noise}{self._remedy}"
        return f"its {self.percentile} is {ours} over gRPC and {theirs} over shared memory: {ratio}, {limit}"

    @property
    def _remedy(self) -> str:
        """What could show it. How many calls that takes is not said: the machine's noise, then as now, decides it."""
        if not self.holds_back or self.times >= self.limit:
            return ""
        worth = f"; noise that lasts makes {plural(self.calls, 'call')} worth {self.worth:,} independent ones"
        return f"{worth * (self.worth < self.calls / 2)}; more calls, over a longer time, can show that it is kept"

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values, ratios and microseconds rounded to what they can mean."""
        rounded = {name: round(value, 4) for name, value in asdict(self).items() if isinstance(value, float)}
        return asdict(self) | rounded | {"holds_back": self.holds_back, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class _Sides:
    control: Samples
    candidate: Samples

    def __len__(self) -> int:
        return min(len(self.control), len(self.candidate))

    def _logs(self) -> tuple[Logs, Logs]:
        """Return float64 (n,) of control and candidate; of logarithms a ratio and its inverse weigh the same."""
        return np.log(np.asarray(self.control)), np.log(np.asarray(self.candidate))


@dataclass(frozen=True, slots=True)
class Pairs(_Sides):
    """Durations of control and candidate for the same calls, in one order."""

    def add(self, control_us: float, candidate_us: float) -> None:
        """Take the durations of one more call."""
        self.control.append(control_us)
        self.candidate.append(candidate_us)

    def latency(self, limit: float, noise: str, error: float, name: str = "p50") -> Latency:
        """Return how the middle of the pairs compares. error: the probability that the true ratio is above `at_most`.

        There are at least `ENOUGH_PAIRS`.
        """
        middle, half, worth = middle_ratio(self.control, self.candidate, error)
        control, candidate = (float(np.median(side)) for side in (self.control, self.candidate))
        return Latency(
            name, control, candidate, math.exp(middle), math.exp(middle + half), limit, noise, len(self), worth
        )

    def noise(self, error: float = 0.05) -> float:
        """Return the lower bound of the ratio, from 1, of an A/A run's slower side to the other; 1 with too few pairs.

        The bound is above the true ratio with probability `error` at most: few samples show less noise, never more.
        """
        if len(self) < ENOUGH:
            return 1.0
        middle, half, _ = middle_ratio(self.control, self.candidate, error / 2)  # either side may be the slower one
        return min(MOST_NOISE, math.exp(max(0.0, abs(middle) - half)))


@dataclass(frozen=True, slots=True)
class Tails(_Sides):
    """Durations of control and candidate, each side's of calls of its own, in one order."""

    def latency(self, limit: float, error: float) -> Latency:
        """Return how the p99 compares; both sides have as many samples as a p99 needs.

        Tails are too few to say how long noise lasts, so the middle of each side does.
        """
        sides = self._logs()
        found = (Blocks.of(side > np.median(side), LEAST_BLOCKS) for side in sides)  # so long that each has a p99
        blocks = max(found, key=lambda one: one.inflation * one.widening)
        ours, theirs = (_p99(cut(side, blocks.count)) for side in sides)
        half = blocks.half_width(theirs - ours, error)
        control, candidate = (math.exp(_p99(side)) for side in sides)
        at_most = candidate / control * math.exp(half)
        worth = blocks.worth(len(self))
        return Latency("p99", control, candidate, candidate / control, at_most, limit, "", len(self), worth)


def _p99(values: Logs) -> Any:
    """Return the nearest-rank p99 along the last axis."""
    return np.percentile(values, 99, axis=-1, method="inverted_cdf")
