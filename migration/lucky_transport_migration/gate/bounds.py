"""What counts can prove: exact bounds of a rate and of a percentile, from the binomial distribution.

    upper_bound(0, 1000, 0.95)      0.00299: no mismatch in 1,000 trials (3/N, Clopper and Pearson 1934)

Nothing here draws random numbers: equal counts give equal bounds.
"""

from __future__ import annotations

import bisect
import math
from functools import lru_cache

from scipy.special import bdtr, betaincinv  # scipy.stats has them too, and takes half a second to import

__all__ = ["error_of_look", "needed_trials", "rank_above", "rank_below", "upper_bound"]


def error_of_look(error: float, look: int) -> float:
    """Return the share of `error` that look `look`, from 1, may spend; the shares of all looks add up to `error`."""
    return 6 * error / (math.pi * look) ** 2


def upper_bound(hits: int, n: int, confidence: float) -> float:
    """Return the rate that the true one is not above, with that confidence, after `hits` in `n` trials.

    No trials prove nothing: 1.0.
    """
    return 1.0 if hits >= n else float(betaincinv(hits + 1, n - hits, confidence))


@lru_cache(maxsize=4096)
def needed_trials(hits: int, limit: float, confidence: float) -> int:
    """Return the smallest number of trials at which `hits` of them leave no rate above `limit` (> 0) open."""

    def is_enough(n: int) -> bool:
        return upper_bound(hits, n, confidence) <= limit

    most = 2 * (hits + 1)
    while not is_enough(most):
        most *= 2
    trials = range(hits + 1, most)
    return hits + 1 + bisect.bisect_left(trials, True, key=is_enough)


@lru_cache(maxsize=4096)
def rank_above(n: int, share: float, error: float) -> int:
    """Return the rank, from 1, of the sample that a percentile lies above with probability `error` at most.

    share: of samples below the percentile. n + 1 stands for "no sample is high enough to say". It holds for samples of
    any distribution.
    """
    return _quantile(1 - error, n, share) + 1


@lru_cache(maxsize=4096)
def rank_below(n: int, share: float, error: float) -> int:
    """Return the rank of the sample that a percentile lies below with probability `error` at most; 0: no sample."""
    return _quantile(error, n, share)


def _quantile(probability: float, n: int, share: float) -> int:
    """Return the least number that the hits in `n` trials do not exceed with that probability."""
    return bisect.bisect_left(range(n), probability, key=lambda hits: bdtr(hits, n, share))
