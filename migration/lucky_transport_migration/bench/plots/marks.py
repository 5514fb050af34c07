"""Figures as marks, one row each: CPU of both sides, ratios with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from lucky_transport_migration.bench.palette import INK, look
from lucky_transport_migration.bench.plots.canvas import draw, height_in, us_axis
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["ratio_intervals", "two_sided_dots"]


def two_sided_dots(rows: Mapping[str, tuple[float, float | None]], what: str) -> str:
    """Return CPU time per step, client and engine as two marks on one logarithmic line per path."""

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        values = [max(us, 1e-3) for pair in rows.values() for us in pair if us is not None]
        low, high = min(values) * 0.5, max(values) * 2.5
        for place, (name, (client, engine)) in enumerate(rows.items()):
            colour = look(name, tuple(rows)).light
            if engine is not None:
                axes.plot([client, engine], [place, place], color=colour, linewidth=1.0, alpha=0.6)
                axes.plot([engine], [place], "s", color=colour, markerfacecolor="none", markersize=7)
            axes.plot([client], [place], "o", color=colour, markersize=6)
        axes.set_yticks(range(len(rows)), [label(name) for name in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(low, high)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        us_axis(axes.xaxis, low, high)
        axes.set_xlabel("● client   □ engine")

    told = "; ".join(
        f"{label(name)}: client {duration_text(client)}"
        + ("" if engine is None else f", engine {duration_text(engine)}")
        for name, (client, engine) in rows.items()
    )
    return draw(f"{what}. {told}.", paint, height_in(len(rows)))


def ratio_intervals(rows: Sequence[tuple[str, str, float, float, float]], floor: float, reference: str) -> str:
    """Return (path, text, ratio, low, high) rows as points with intervals; the band is what A/A showed."""

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.axvspan(1 / floor, floor, color=INK, alpha=0.14, linewidth=0)
        axes.axvline(1.0, color=INK, linewidth=0.8)
        names = tuple(dict.fromkeys(row[0] for row in rows))
        for place, (name, _, ratio, low, high) in enumerate(rows):
            drawn = look(name, names)
            axes.plot([low, high], [place, place], color=drawn.light, linewidth=1.5)
            axes.plot([ratio], [place], drawn.marker, color=drawn.light, markersize=5.5)
        axes.set_yticks(range(len(rows)), [row[1] for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        low, high = min(0.7, *(row[3] for row in rows)), max(2.0, *(row[4] for row in rows))
        axes.set_xlim(low / 1.3, high * 1.6)
        axes.spines["left"].set_visible(False)
        exponents = range(math.ceil(math.log10(low / 1.3)), math.ceil(math.log10(high * 1.6)))
        stride = 1 if len(exponents) <= 5 else 2
        ticks = [10.0**k for k in exponents if k % stride == 0]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}×"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(f"times as long as {reference}")
        axes.tick_params(axis="y", labelsize=8 if lines == 1 else 7)

    told = "; ".join(f"{' '.join(text.split())}: {times_text(ratio)} times" for _, text, ratio, _, _ in rows)
    lines = max(text.count("\n") + 1 for _, text, *_ in rows)
    inches = max(1.5, 0.75 + (0.09 + 0.12 * lines) * len(rows))
    return draw(f"How many times longer than {reference}. {told}.", paint, inches)
