"""Latency as lines: by percentile, and over what was swept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from lucky_transport_migration.bench.plots.canvas import draw, end_labels, line, us_axis
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text

__all__ = ["Curve", "percentile_curves", "sweep"]

_NINES = {"0": 0.0, "50": 50.0, "90": 90.0, "99": 99.0, "99.9": 99.9, "99.99": 99.99}

Curve = Sequence[Sequence[float]]


def percentile_curves(curves: Mapping[str, Curve], what: str) -> str:
    """Return the latency at each percentile, by nines; `curves` maps a path to (percentile, microseconds) pairs."""

    def paint(axes: Axes) -> None:
        axes.set_yscale("log")
        values = [us for curve in curves.values() for _, us in curve]
        axes.set_ylim(min(values) * 0.7, max(values) * 1.5)
        for name, curve in curves.items():
            line(axes, name, list(curves), [_nines(p) for p, _ in curve], [us for _, us in curve], dots=False)
        highest = max(p for curve in curves.values() for p, _ in curve)
        ticks = {text: p for text, p in _NINES.items() if p <= highest and (p or highest < 99.9)}  # p0 is too near p50
        axes.xaxis.set_major_locator(FixedLocator([_nines(p) for p in ticks.values()]))
        axes.set_xticklabels([f"p{text}" for text in ticks])
        axes.set_xlim(0, _nines(highest))
        axes.grid(visible=True)
        us_axis(axes.yaxis, *axes.get_ylim())
        end_labels(axes, {name: curve[-1][1] for name, curve in curves.items()}, {n: label(n) for n in curves})

    medians = ", ".join(f"{label(name)} {duration_text(_at(curve, 50.0))}" for name, curve in curves.items())
    return draw(f"{what} by percentile. At the median: {medians}.", paint)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _at(curve: Curve, percent: float) -> float:
    return min(curve, key=lambda point: abs(point[0] - percent))[1]


def sweep(series: Mapping[str, Mapping[int, float]], what: str, axis: str, text: Callable[[int], str]) -> str:
    """Return p50 over what was swept, both logarithmic.

    `series` maps a path to {size: microseconds}, `axis` names the sizes, `text` writes one.
    """
    sizes = sorted({size for points in series.values() for size in points})

    def paint(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        values = [us for points in series.values() for us in points.values()]
        axes.set_ylim(min(values) * 0.6, max(values) * 1.7)
        for name, points in series.items():
            line(axes, name, list(series), list(points), list(points.values()), dots=True)
        axes.set_xlim(sizes[0], sizes[-1] if len(sizes) > 1 else sizes[0] * 2)
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.set_xticklabels([text(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(axis)
        axes.grid(visible=True)
        us_axis(axes.yaxis, *axes.get_ylim())
        ends = {name: points[max(points)] for name, points in series.items()}
        end_labels(axes, ends, {name: label(name) for name in ends})

    largest = sizes[-1]
    ends = ", ".join(f"{label(n)} {duration_text(p[largest])}" for n, p in series.items() if largest in p)
    return draw(f"{what} by {axis}. At {text(largest)}: {ends}.", paint)
