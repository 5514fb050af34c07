"""A share of many questions, answered with yes evenly.

Of any n questions in a row, between floor(n p) and ceil(n p) are answered with yes for a share p.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

__all__ = ["Sampler"]


@dataclass(frozen=True, slots=True)
class Sampler:
    """Call it with each question. share: from 0 to 1. start: from 0 to 1, how near the first yes is."""

    share: float
    start: float
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def __call__(self) -> bool:
        n = next(self._count)  # in one piece: two threads never get the same number
        return math.floor(self.start + (n + 1) * self.share) > math.floor(self.start + n * self.share)
