"""Rate, step times and engine's share of a stepping loop, from glances at its two counters.

Nothing tells an observer when a step ends, so the counters are read at a fixed pace. Where the frame counter moved, the
time since it last moved is divided by the steps in between: slow steps are timed to one period, and steps faster than
the period are averaged over it. A percentile is of steps, each with the time of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: More steps than that between two glances are no steps: the counter is another engine's, or damaged.
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class StepReading:
    """What was seen within one look. rate: steps of the batch a second.

    p50_s, p99_s: step times, None before the counter moved twice. engine_share: of all glances, those at which the
    engine had actions and no frame yet; None before two glances. seen_s: how long it was looked at.
    """

    rate: float = 0.0
    p50_s: float | None = None
    p99_s: float | None = None
    engine_share: float | None = None
    seen_s: float = 0.0


def steps_seen(glances: Sequence[tuple[int, int, int]]) -> StepReading:
    """Return what glances (nanoseconds, frame counter, action counter) say; a counter that leaps begins anew."""
    if len(glances) < 2:
        return StepReading()
    times, frames, actions = np.array(glances, np.uint64).T
    leaps = np.flatnonzero(np.diff(frames) >= _MOST)  # backwards is a leap too: the difference wraps
    begin = int(leaps[-1]) + 1 if leaps.size else 0
    times, frames, actions = times[begin:] - times[begin], frames[begin:], actions[begin:]
    seen_s = float(times[-1]) * 1e-9
    if not seen_s:
        return StepReading()
    moved = np.flatnonzero(np.diff(frames)) + 1
    p50 = p99 = None
    if moved.size > 1:
        steps = np.diff(frames[moved])
        p50, p99 = _percentiles(np.diff(times[moved]) / steps * 1e-9, steps)
    return StepReading(float(frames[-1] - frames[0]) / seen_s, p50, p99, float(np.mean(actions != frames)), seen_s)


def _percentiles(values: NDArray[np.float64], weights: NDArray[np.uint64]) -> tuple[float, float]:
    """Return the median and the 99th percentile of values that count several times each."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    p50, p99 = (float(values[order[np.searchsorted(reached, share)]]) for share in (0.5, 0.99))
    return p50, p99
