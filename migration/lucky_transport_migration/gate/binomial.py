"""What counts can prove: exact bounds of a rate and of a percentile, from the binomial distribution.

    upper_bound(0, 1000, 0.95)      0.00299: no mismatch in 1,000 calls (3/N, Clopper and Pearson 1934)

Nothing here draws random numbers: equal counts give equal bounds.
"""

from __future__ import annotations

import bisect
import math
from functools import lru_cache

__all__ = ["cdf", "needed_calls", "rank_bounds", "upper_bound"]

_PRECISION = 1e-12
_TINY = 1e-300
_MOST_TERMS = 100_000


def cdf(k: int, n: int, p: float) -> float:
    """Return the probability of at most `k` hits in `n` tries of probability `p`; n >= 0, 0 <= p <= 1."""
    if k < 0:
        return 0.0
    if k >= n or p <= 0:
        return 1.0
    return 0.0 if p >= 1 else _incomplete_beta(n - k, k + 1, 1 - p)


def upper_bound(hits: int, n: int, confidence: float) -> float:
    """Return the rate that the true one is not above, with that confidence, after `hits` in `n` tries.

    No tries prove nothing: 1.0.
    """
    if hits >= n:
        return 1.0
    low, high = hits / n, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(hits, n, middle) > 1 - confidence else (low, middle)
    return high


def needed_calls(hits: int, limit: float, confidence: float) -> int:
    """Return the smallest number of tries at which `hits` of them leave no rate above `limit` (> 0) open."""

    def is_enough(n: int) -> bool:
        return upper_bound(hits, n, confidence) <= limit

    most = 2 * (hits + 1)
    while not is_enough(most):
        most *= 2
    tries = range(hits + 1, most)
    return hits + 1 + bisect.bisect_left(tries, True, key=is_enough)


@lru_cache(maxsize=4096)
def rank_bounds(n: int, share: float, doubt: float) -> tuple[int, int]:
    """Return the ranks, from 1, of the samples between which a percentile lies, but for a probability of `doubt`.

    share: of samples below the percentile. 0 and n + 1 stand for "no sample is low (high) enough to say". It holds for
    samples of any distribution.
    """
    tail = doubt / 2
    ranks = range(n + 1)
    low = bisect.bisect_right(ranks, tail, key=lambda rank: cdf(rank - 1, n, share)) - 1
    high = bisect.bisect_left(ranks, 1 - tail, key=lambda rank: cdf(rank - 1, n, share))
    return low, high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, 0 < x < 1, by its continued fraction (DLMF 8.17.22)."""
    if x > (a + 1) / (a + b + 2):  # there the fraction of the mirrored function converges fast
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = fraction
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(fraction - before) <= 1e-15 * abs(fraction):
            break
    return min(1.0, math.exp(log_front) * fraction / a)


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
