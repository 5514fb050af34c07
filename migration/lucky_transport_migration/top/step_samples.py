"""Rate, step times and engine's share of a stepping loop, from glances at its two counters.

Nothing tells an observer when a step ends, so the counters are read at a fixed pace. Where the frame counter moved, the
time since it last moved is divided by the steps in between: slow steps are timed to one period, and steps faster than
the period are averaged over it. A percentile is of steps, each with the time of its group.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

#: More steps than that between two glances are no steps: the counter is another engine's, or damaged.
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class StepReading:
    """What was seen within the last seconds. rate: steps of the batch a second.

    p50_s, p99_s: step times, None before the counter moved twice. engine_share: of all glances, those at which the
    engine had actions and no frame yet; None before the first. seen_s: how long it was looked at.
    """

    rate: float
    p50_s: float | None
    p99_s: float | None
    engine_share: float | None
    seen_s: float


class StepSamples:
    """The glances of the last `window_s` seconds at one loop. One thread adds, any may read."""

    def __init__(self, window_s: float) -> None:
        self._window_ns = int(window_s * 1e9)
        #: When, the frame counter, whether the engine was at work.
        self._glances: deque[tuple[int, int, bool]] = deque()

    def add(self, now_ns: int, frame_seq: int, action_seq: int) -> None:
        """Take a glance; counters that go backwards or leap begin anew."""
        glances = self._glances
        if glances and not 0 <= frame_seq - glances[-1][1] < _MOST:
            glances.clear()
        glances.append((now_ns, frame_seq, action_seq != frame_seq))
        while now_ns - glances[0][0] > self._window_ns:
            glances.popleft()

    def read(self) -> StepReading:
        """Return what the glances say."""
        glances = list(self._glances)
        if len(glances) < 2:
            return StepReading(0.0, None, None, None, 0.0)
        times = np.array([one[0] for one in glances], np.int64)
        first = glances[0][1]  # a damaged counter may be of any size
        frames = np.array([one[1] - first for one in glances], np.int64)
        seen_s = float(times[-1] - times[0]) * 1e-9
        moved = np.flatnonzero(np.diff(frames)) + 1
        p50 = p99 = None
        if moved.size > 1:
            steps = np.diff(frames[moved])
            p50, p99 = _percentiles(np.diff(times[moved]) / steps * 1e-9, steps)
        share = sum(one[2] for one in glances) / len(glances)
        return StepReading(float(frames[-1] - frames[0]) / seen_s, p50, p99, share, seen_s)


def _percentiles(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the median and the 99th percentile of values that count several times each."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    p50, p99 = (float(values[order[np.searchsorted(reached, share)]]) for share in (0.5, 0.99))
    return p50, p99
