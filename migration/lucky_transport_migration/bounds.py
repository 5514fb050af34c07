"""What calls can prove: bounds of a rate, and of what is measured block by block.

    upper_bound(0, 1000, 0.95)      0.00299: no mismatch in 1,000 trials (3/N, Clopper and Pearson 1934)

What disturbs a call often disturbs the next ones too, so neighbouring calls are worth less than independent ones. Calls
are cut into blocks so long that one tells little about the next, and bounds come from how much blocks differ (batch
means). A process that differs from others does so as noise does that lasts as long as it. Nothing here draws random
numbers: equal calls give equal bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrin, betaincinv, ndtri, stdtrit  # scipy.stats takes half a second to import

#: Into so many blocks calls are cut. Fewer than the most where noise lasts; fewer than the least say too little.
MOST_BLOCKS, LEAST_BLOCKS = 16, 8
#: A block is so many times as long as the calls of it that are worth one independent call: then the rest of what one
#: block has in common with the next is small.
_LENGTH = 16


def error_of_look(error: float, look: int) -> float:
    """Return the share of `error` that look `look`, from 1, may spend; the shares of all looks add up to `error`."""
    return 6 * error / (math.pi * look) ** 2


def upper_bound(hits: float, n: float, confidence: float) -> float:
    """Return the rate that the true one is not above, with that confidence, after `hits` in `n` trials.

    No trials prove nothing: 1.0.
    """
    return 1.0 if hits >= n else float(betaincinv(hits + 1, n - hits, confidence))


def needed_trials(hits: float, limit: float, confidence: float) -> int:
    """Return the smallest number of trials at which `hits` of them leave no rate above `limit` (> 0) open."""
    return math.ceil(bdtrin(hits, 1 - confidence, limit))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Calls in one order, cut into `count` equal blocks of which one tells little about the next.

    inflation: how many times as much their rate of hits varies as that of independent calls. widening: by how much an
    interval is wider because the blocks are shorter than that asks for; 1 where they are long enough.
    """

    count: int
    inflation: float
    widening: float

    @classmethod
    def of(cls, hits: NDArray[np.bool_], most: int = MOST_BLOCKS) -> Blocks:
        """Return the most blocks that are long enough for what `hits` (n,) show; the fewest where none are."""
        if hits.size < LEAST_BLOCKS:
            return cls(LEAST_BLOCKS, 1.0, 1.0)
        count, rate = most, float(hits.mean())
        while count > LEAST_BLOCKS and hits.size < count * _LENGTH:
            count //= 2
        while True:
            length, rates = hits.size // count, cut(hits, count).mean(axis=1)
            inflation = max(1.0, length * float(rates.var(ddof=1)) / (rate * (1 - rate))) if 0 < rate < 1 else 1.0
            lacking = _LENGTH * inflation / length
            if lacking <= 1 or count == LEAST_BLOCKS:
                return cls(count, inflation, max(1.0, lacking) ** 0.5)
            count //= 2

    def worth(self, calls: int) -> int:
        """Return how many independent calls that many are worth."""
        return max(1, round(calls / (self.inflation * self.widening**2)))

    def half_width(self, values: NDArray[np.float64], error: float) -> float:
        """Return how far the mean of all blocks' `values` (count,) is below the true one, with probability `error`."""
        return self._quantile(error) * float(values.std(ddof=1)) / self.count**0.5 * self.widening

    def loss(self, error: float) -> float:
        """Return how many times as many trials a bound needs that may be wrong with probability `error`.

        Korn and Graubard 1998: the blocks say how much more the rate varies, and few blocks say it less well.
        """
        return self.inflation * (self.widening * self._quantile(error) / float(ndtri(error))) ** 2

    def _quantile(self, error: float) -> float:
        return -float(stdtrit(self.count - 1, error))


def cut(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the latest of `values` (n,) as `count` blocks (count, n // count)."""
    length = values.size // count
    return values[values.size - length * count :].reshape(count, length)


def middle_ratio(under: Sequence[float], over: Sequence[float], error: float) -> tuple[float, float, int]:
    """Return what is known of the ratios of `over` to `under` (both (n,), of n pairs): the logarithm of the middle one,
    how far the true one may be above it with probability `error`, and how many independent pairs these are worth.

    There are at least `LEAST_BLOCKS`.
    """
    ratios = np.log(np.asarray(over)) - np.log(np.asarray(under))
    middle = float(np.median(ratios))
    blocks = Blocks.of(ratios > middle)
    half = blocks.half_width(np.median(cut(ratios, blocks.count), axis=1), error)
    return middle, half, blocks.worth(ratios.size)
