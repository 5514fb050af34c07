"""What all charts share: the canvas, its way into a page, axes of durations, lines with their names at the end.

Equal input gives equal bytes: fixed hash salt, no date, no state outside the function. Nothing is told by colour alone:
lines carry their name at their end, a dash pattern and a marker. Each chart has a sentence that says what it shows to
readers that cannot see it.
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

from lucky_transport_migration.bench.palette import INK, look, themed

__all__ = ["SIZE_IN", "draw", "end_labels", "height_in", "line", "tick_text", "us_axis"]

SIZE_IN = (4.3, 3.1)
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


def draw(sentence: str, paint: Callable[[Axes], None], inches: float = SIZE_IN[1]) -> str:
    """Return the SVG of what `paint` draws; `sentence` tells it in words, `inches` is its height."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(SIZE_IN[0], inches), layout="constrained")
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


_FEWEST_TICKS = 3


def us_axis(axis: Any, low: float, high: float) -> None:
    """Label a logarithmic axis of microseconds with durations in the unit that fits."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1 if last - first <= 5 else 2
    ticks: list[float] = []
    for every, steps in ((stride, (1,)), (1, (1,)), (1, (1, 2, 5))):  # the coarsest that still gives a scale
        ticks = [step * 10.0**k for k in range(first, last + 1, every) for step in steps]
        ticks = [one for one in ticks if low <= one <= high]
        if len(ticks) >= _FEWEST_TICKS:
            break
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def tick_text(us: float) -> str:
    """Return a tick's duration in the unit that fits."""
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


def end_labels(axes: Axes, ends: Mapping[str, float], texts: Mapping[str, str]) -> None:
    """Write each line's name beside its end, in its colour, none over another; `ends` in data units of y."""
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = {name: float(to_axes.transform((1.0, y))[1]) for name, y in ends.items()}
    for name, place in _spread(wanted, 0.085).items():
        colour = look(name, tuple(ends)).light
        axes.text(1.035, place, texts[name], transform=axes.transAxes, color=colour, va="center", ha="left")


def line(axes: Axes, name: str, names: Sequence[str], xs: Sequence[float], ys: Sequence[float], *, dots: bool) -> None:
    """Draw one path's line as it is drawn everywhere."""
    drawn = look(name, tuple(names))
    style = (0, drawn.dash) if drawn.dash else "-"
    marker = drawn.marker if dots else ""
    axes.plot(xs, ys, color=drawn.light, linestyle=style, marker=marker, markersize=4.5, clip_on=False)


def height_in(rows: int) -> float:
    """Return the height of a chart with so many rows."""
    return max(1.5, 0.75 + 0.42 * rows)
