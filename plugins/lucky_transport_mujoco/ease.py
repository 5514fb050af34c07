"""From the pose a robot is found in to the pose that is wanted, within a moment, so that nothing jerks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ease"]

#: Seconds within which a joint is brought from where it is to where it is wanted.
_EASE_S = 0.3


class Ease:
    """The clock of a policy or motion graph, and the pose it began with."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._start: NDArray[np.float64] | None = None
        self._ticks = 0

    @property
    def seconds(self) -> float:
        """Simulated seconds since the beginning."""
        return self._ticks * self._step_s

    def begin(self) -> None:
        """Begin anew, with the pose of the next tick."""
        self._start = None
        self._ticks = 0

    def tick(self, found: NDArray[np.float64]) -> None:
        """One step has been driven from the pose `found`."""
        if self._start is None:
            self._start = found.copy()
        self._ticks += 1

    def towards(self, wanted: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the joint angles for this tick, float64 (12,); `found` is the present pose. Changes nothing."""
        start = found if self._start is None else self._start
        share = min(self.seconds / _EASE_S, 1.0)
        return start + share * (wanted - start)
