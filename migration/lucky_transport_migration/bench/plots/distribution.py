"""How latencies are spread: one ridge a path, as high as often, with what measuring again (A/A) gave dashed over it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from lucky_transport_migration.bench.palette import INK, look
from lucky_transport_migration.bench.plots.canvas import draw, us_axis
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text

__all__ = ["Counts", "ridges"]

#: (microseconds, samples), shortest first.
Counts = Sequence[tuple[float, int]]

_BINS_PER_DECADE = 24
_TALLEST = 0.86  # of the way to the ridge above
_TAIL = 0.001  # this share at either end is left out: a curve of percentiles shows tails better


def ridges(rows: Mapping[str, Counts], again: tuple[str, Counts] | None, what: str) -> str:
    """Return one ridge per path; `again` is the second measurement of one of them."""
    bounds = [_range(counts) for counts in rows.values()]
    low, high = min(one[0] for one in bounds), max(one[1] for one in bounds)
    edges = 10.0 ** np.arange(math.log10(low) - 0.15, math.log10(high) + 0.15, 1 / _BINS_PER_DECADE)
    centres = np.sqrt(edges[:-1] * edges[1:])

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        for place, (name, counts) in enumerate(rows.items()):
            drawn = look(name, tuple(rows))
            heights = _heights(counts, edges)
            axes.fill_between(centres, place, place - heights, color=drawn.light, alpha=0.35, linewidth=0)
            axes.plot(centres, place - heights, color=drawn.light, linewidth=1.2)
            if again is not None and again[0] == name:
                axes.plot(centres, place - _heights(again[1], edges), color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
        axes.set_yticks(range(len(rows)), [label(name) for name in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.8, -1.0)
        axes.set_xlim(edges[0], edges[-1])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        us_axis(axes.xaxis, edges[0], edges[-1])

    told = "; ".join(f"{label(name)}: {duration_text(_share(counts, 0.5))}" for name, counts in rows.items())
    twice = "" if again is None else f" {label(again[0])} measured again lies over itself."
    return draw(f"{what}. Middle of each: {told}.{twice}", paint, max(1.8, 0.6 + 0.42 * len(rows)))


def _share(counts: Counts, share: float) -> float:
    """Return the duration that so many of the samples do not exceed."""
    wanted, seen = share * sum(n for _, n in counts), 0
    for us, n in counts:
        seen += n
        if seen >= wanted:
            return us
    return counts[-1][0]


def _range(counts: Counts) -> tuple[float, float]:
    return _share(counts, _TAIL), _share(counts, 1 - _TAIL)


def _heights(counts: Counts, edges: NDArray[Any]) -> NDArray[Any]:
    """Return how often each bin occurred, the most frequent one _TALLEST high, neighbours smoothed."""
    durations = np.array([us for us, _ in counts])
    found, _ = np.histogram(durations, edges, weights=[float(n) for _, n in counts])
    smooth = np.convolve(found, (0.25, 0.5, 0.25), mode="same")
    return smooth / max(float(smooth.max()), 1.0) * _TALLEST
