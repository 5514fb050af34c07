"""Figures that pages of steps and of calls share: a chart with its title and the line that says how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lucky_transport_migration.bench.page import Html, figure
from lucky_transport_migration.bench.plots.curves import Curve, percentile_curves
from lucky_transport_migration.bench.plots.marks import ratio_intervals
from lucky_transport_migration.paths import label

__all__ = ["LOG_LOG", "Point", "percentile_figure", "ratio_figure"]

#: Path, text, ratio and the bounds of its interval.
Point = tuple[str, str, float, float, float]

LOG_LOG = "Both axes logarithmic; lower is better."


def percentile_figure(curves: Mapping[str, Curve], what: str, title: str) -> Html:
    """Return the latency of `what` by percentile, one curve a path."""
    caption = "Logarithmic; lower is better. Drawn as far as the sample supports it."
    return figure(percentile_curves(curves, what), title, caption)


def ratio_figure(points: Sequence[Point], result: Mapping[str, Any], title: str) -> Html:
    """Return the ratios to the result's reference, with its noise floor as a band."""
    floor = result["noise_floor"]["floor"] if result["noise_floor"] else 1.0
    return figure(
        ratio_intervals(points, floor, label(result["reference"])),
        title,
        "Right of the line: slower than the reference. The band is what measuring the same thing twice gave (A/A).",
    )
