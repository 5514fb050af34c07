"""The charts of a report, as inline SVG.

Rule 1: equal input gives equal bytes: fixed hash salt, no date, no state outside the function.
Rule 2: nothing is told by colour alone: lines carry their name at their end, a dash pattern and a marker.
Rule 3: each chart has a sentence that says what it shows to whoever cannot see it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from lucky_transport_migration.palette import INK, look, themed
from lucky_transport_migration.paths import label
from lucky_transport_migration.stats import duration_text, times_text

__all__ = ["bars", "latency_by_envs", "lollipops", "percentile_curves", "ratio_intervals", "two_sided_dots"]

_SIZE_IN = (4.3, 3.1)
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lucky-transport",
    "font.size": 9.0,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.14,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "hatch.linewidth": 0.6,
}
_NINES = {"0": 0.0, "50": 50.0, "90": 90.0, "99": 99.0, "99.9": 99.9, "99.99": 99.99}

Curve = Sequence[Sequence[float]]


def _draw(sentence: str, paint: Callable[[Axes], None], height_in: float = _SIZE_IN[1]) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_SIZE_IN[0], height_in), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        paint(axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), sentence)


def _inline(text: str, sentence: str) -> str:
    """Return the drawing as an element of an HTML page: scales with its column, takes the page's font and colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    box = view.group(0) if view else ""
    text = f'<svg {box} role="img" aria-label="{escape(sentence)}">{rest}'
    text = re.sub(
        r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick)[^"]*"', "", text
    )  # not unique per page
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, count=1, flags=re.DOTALL)  # style.css has it
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    return themed(text)


def _us_axis(axis: Any, low: float, high: float) -> None:
    """Label a logarithmic axis of microseconds with durations in the unit that fits."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1 if last - first <= 5 else 2
    axis.set_major_locator(FixedLocator([10.0**k for k in range(first, last + 1, stride)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _tick(us: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if us >= size:
            return f"{us / size:g} {unit}"
    return f"{us:g} µs"


def _spread(wanted: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return places near `wanted`, in the same order, at least `gap` apart (numbers in axis fractions)."""
    order = sorted(wanted, key=lambda name: wanted[name])
    places: dict[str, float] = {}
    below = -math.inf
    for name in order:
        below = places[name] = max(wanted[name], below + gap)
    above = 1.04
    for name in reversed(order):
        above = places[name] = min(places[name], above) - 0.0
        above -= gap
    return places


def _end_labels(axes: Axes, ends: Mapping[str, float], texts: Mapping[str, str]) -> None:
    """Write each line's name beside its end, in its colour, none over another; `ends` in data units of y."""
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = {name: float(to_axes.transform((1.0, y))[1]) for name, y in ends.items()}
    for name, place in _spread(wanted, 0.085).items():
        colour = look(name, tuple(ends)).light
        axes.text(1.035, place, texts[name], transform=axes.transAxes, color=colour, va="center", ha="left")


def _line(axes: Axes, name: str, names: Sequence[str], xs: Sequence[float], ys: Sequence[float], *, dots: bool) -> None:
    drawn = look(name, tuple(names))
    style = (0, drawn.dash) if drawn.dash else "-"
    marker = drawn.marker if dots else ""
    axes.plot(xs, ys, color=drawn.light, linestyle=style, marker=marker, markersize=4.5, clip_on=False)


def percentile_curves(curves: Mapping[str, Curve], what: str) -> str:
    """Return the latency at each percentile, by nines; `curves` maps a path to (percentile, microseconds) pairs."""

    def paint(axes: Axes) -> None:
        axes.set_yscale("log")
        values = [us for curve in curves.values() for _, us in curve]
        axes.set_ylim(min(values) * 0.7, max(values) * 1.5)
        for name, curve in curves.items():
            _line(axes, name, list(curves), [_nines(p) for p, _ in curve], [us for _, us in curve], dots=False)
        highest = max(p for curve in curves.values() for p, _ in curve)
        ticks = {text: p for text, p in _NINES.items() if p <= highest and (p or highest < 99.9)}  # p0 is too near p50
        axes.xaxis.set_major_locator(FixedLocator([_nines(p) for p in ticks.values()]))
        axes.set_xticklabels([f"p{text}" for text in ticks])
        axes.set_xlim(0, _nines(highest))
        axes.grid(visible=True)
        _us_axis(axes.yaxis, *axes.get_ylim())
        _end_labels(axes, {name: curve[-1][1] for name, curve in curves.items()}, {n: label(n) for n in curves})

    medians = ", ".join(f"{label(name)} {duration_text(_at(curve, 50.0))}" for name, curve in curves.items())
    return _draw(f"{what} by percentile. At the median: {medians}.", paint)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _at(curve: Curve, percent: float) -> float:
    return min(curve, key=lambda point: abs(point[0] - percent))[1]


def latency_by_envs(series: Mapping[str, Mapping[int, float]], what: str) -> str:
    """Return p50 over num_envs, both logarithmic; `series` maps a path to {num_envs: microseconds}."""

    def paint(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({n for points in series.values() for n in points})
        values = [us for points in series.values() for us in points.values()]
        axes.set_ylim(min(values) * 0.6, max(values) * 1.7)
        for name, points in series.items():
            _line(axes, name, list(series), list(points), list(points.values()), dots=True)
        axes.set_xlim(sizes[0], sizes[-1] if len(sizes) > 1 else sizes[0] * 2)
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.set_xticklabels([f"{n:,}" for n in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("envs in the batch")
        axes.grid(visible=True)
        _us_axis(axes.yaxis, *axes.get_ylim())
        ends = {name: points[max(points)] for name, points in series.items()}
        _end_labels(axes, ends, {name: label(name) for name in ends})

    largest = max(n for points in series.values() for n in points)
    ends = ", ".join(f"{label(n)} {duration_text(p[largest])}" for n, p in series.items() if largest in p)
    return _draw(f"{what} by number of envs. At {largest:,} envs: {ends}.", paint)


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
        _us_axis(axes.xaxis, low, high)
        axes.set_xlabel("● client   □ engine")

    told = "; ".join(
        f"{label(name)}: client {duration_text(client)}"
        + ("" if engine is None else f", engine {duration_text(engine)}")
        for name, (client, engine) in rows.items()
    )
    return _draw(f"{what}. {told}.", paint, _height(len(rows)))


def _height(rows: int) -> float:
    return max(1.5, 0.75 + 0.42 * rows)


def lollipops(rows: Mapping[str, float], what: str) -> str:
    """Return one duration (microseconds) per path on a logarithmic axis, with its value written beside it."""

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        low, high = min(rows.values()) / 4, max(rows.values()) * 9
        for place, (name, us) in enumerate(rows.items()):
            drawn = look(name, tuple(rows))
            axes.plot([low, us], [place, place], color=drawn.light, linewidth=1.0, alpha=0.6)
            axes.plot([us], [place], drawn.marker, color=drawn.light, markersize=6.5)
            axes.text(us * 1.35, place, duration_text(us), va="center", ha="left")
        axes.set_yticks(range(len(rows)), [label(name) for name in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(low, high)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        _us_axis(axes.xaxis, low, high)

    told = "; ".join(f"{label(name)}: {duration_text(us)}" for name, us in rows.items())
    return _draw(f"{what}. {told}.", paint, _height(len(rows)))


def bars(rows: Mapping[str, float], floor: tuple[str, float], what: str) -> str:
    """Return one bar per path, in microseconds on a linear axis, and a line where `floor` (name, microseconds) is."""

    def paint(axes: Axes) -> None:
        longest = max(rows.values())
        for place, (name, us) in enumerate(rows.items()):
            axes.barh(place, us, color=look(name, tuple(rows)).light, height=0.55)
            axes.text(max(us, floor[1]) + longest * 0.02, place, duration_text(us), va="center", ha="left")
        axes.axvline(floor[1], color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.annotate(
            f"{floor[0]}: {duration_text(floor[1])}", (floor[1], len(rows) - 0.45), (4, 0), textcoords="offset points"
        )
        axes.set_yticks(range(len(rows)), [label(name) for name in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.2, -0.6)
        axes.set_xlim(0, longest * 1.24)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda us, _: "0" if us == 0 else _tick(us)))
        axes.locator_params(axis="x", nbins=4)
        axes.grid(visible=True, axis="x")

    told = "; ".join(f"{label(name)}: {duration_text(us)}" for name, us in rows.items())
    return _draw(f"{what}. {told}; {floor[0]}: {duration_text(floor[1])}.", paint, _height(len(rows) + 1))


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
        axes.tick_params(axis="y", labelsize=8)

    told = "; ".join(f"{text}: {times_text(ratio)} times" for _, text, ratio, _, _ in rows)
    height_in = max(1.5, 0.75 + 0.21 * len(rows))
    return _draw(f"How many times longer than {reference}. {told}.", paint, height_in)
