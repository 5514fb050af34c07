"""The charts of a training's page: matplotlib's SVG, which takes the page's font and colours.

Equal input gives equal bytes. Nothing is told by colour alone: lines carry their name, a dash pattern and a marker, and
each chart has a sentence for readers that cannot see it.
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
from matplotlib.ticker import FuncFormatter, MaxNLocator

__all__ = ["COLOURS", "costs", "curves", "same_curves", "shares"]

#: Drawn where the page's text colour belongs.
_INK = "#123457"

#: CSS variable -> its colour on light and on dark ground; Okabe and Ito's, told apart with any colour vision.
COLOURS: Mapping[str, tuple[str, str]] = {
    "a": ("#0072b2", "#56b4e9"),
    "b": ("#d55e00", "#ff8a3d"),
    "c": ("#00815f", "#2fc79a"),
    "d": ("#6b6f76", "#a3a8b0"),
    "e": ("#a84c83", "#e39ac3"),
}
_DASHES: Mapping[str, Any] = {
    "a": "-",
    "b": (0, (5, 1.5)),
    "c": (0, (1.5, 1.5)),
    "d": (0, (2, 2)),
    "e": (0, (6, 1, 1, 1)),
}
#: So many points of a curve have a marker; in long curves markers would hide each other.
_MARKERS = 25
_HATCHES = {"a": "", "b": "////", "c": "....", "d": "", "e": "xxxx"}

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lucky-transport",
    "font.size": 9.0,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": _INK,
    "grid.alpha": 0.14,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "hatch.linewidth": 0.5,
}


def _draw(sentence: str, paint: Callable[[Axes], None], height_in: float = 3.0) -> str:
    """Return the SVG of what `paint` draws, as an element of an HTML page; `sentence` tells it in words."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.3, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    text = f'<svg {view.group(0) if view else ""} role="img" aria-label="{escape(sentence)}">{rest}'
    # a page has several charts: their elements need no names, but for those that are referred to
    text = re.sub(
        r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick|legend|LineCollection)[^"]*"', "", text
    )
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for name, (light, _) in COLOURS.items():
        text = text.replace(light, f"var(--{name})")
    return text.replace(_INK, "currentColor")


def _light(name: str) -> str:
    return COLOURS[name][0]


def _name_ends(axes: Axes, ends: Mapping[str, tuple[str, float]]) -> None:
    """Write names beside the ends of lines, name -> (colour, y), none over another."""
    to_axes = axes.transData + axes.transAxes.inverted()
    place = -math.inf
    for text, (colour, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        place = max(float(to_axes.transform((1.0, y))[1]), place + 0.085)
        axes.text(1.03, place, text, transform=axes.transAxes, color=_light(colour), va="center")


def _smooth(values: Sequence[float]) -> list[float]:
    """Return running means of up to nine values."""
    return [sum(part) / len(part) for end in range(1, len(values) + 1) for part in [values[max(0, end - 9) : end]]]


def curves(
    steps: Sequence[int], lines: Mapping[str, Sequence[float]], what: str, levels: Mapping[str, float] | None = None
) -> str:
    """Return lines over env steps, smoothed over nine updates, and horizontal `levels`."""
    levels = levels or {}

    def paint(axes: Axes) -> None:
        ends: dict[str, tuple[str, float]] = {}
        for colour, (name, values) in zip("abce", lines.items(), strict=False):
            smooth = _smooth(values)
            axes.plot(steps, values, color=_light(colour), alpha=0.25, linewidth=0.7)
            axes.plot(steps, smooth, color=_light(colour), linestyle=_DASHES[colour])
            ends[name] = (colour, smooth[-1])
        for name, level in levels.items():
            colour = "c" if name == "evaluated" else "d"
            axes.axhline(level, color=_light(colour), linestyle=_DASHES[colour], linewidth=1.2)
            ends[name] = (colour, level)
        axes.set_xlim(0, steps[-1])
        axes.set_ylim(bottom=min(0.0, *axes.get_ylim()))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,.4g}k" if value else "0"))
        axes.set_xlabel("env steps")
        axes.grid(visible=True)
        _name_ends(axes, ends)

    told = ", ".join(f"{name} {_smooth(values)[-1]:.2f}" for name, values in lines.items())
    told += "".join(f", {name} {level:.2f}" for name, level in levels.items())
    return _draw(f"{what} over env steps. At the end: {told}.", paint)


def same_curves(rewards: Mapping[str, Sequence[float]], equal: bool) -> str:
    """Return the first updates over each transport; where they are equal, the markers lie inside each other."""

    def paint(axes: Axes) -> None:
        for number, (colour, (name, values)) in enumerate(zip("abc", rewards.items(), strict=False)):
            axes.plot(
                range(1, len(values) + 1),
                values,
                color=_light(colour),
                linestyle="-",
                linewidth=1.0,
                marker="osD"[number],
                markevery=max(1, len(values) // _MARKERS),
                markersize=(13, 8.5, 4)[number],
                markerfacecolor="none",
                markeredgewidth=1.5,
                label=name,
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("update")
        axes.margins(y=0.2)
        axes.grid(visible=True)
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, handletextpad=0.3)

    same = "equal" if equal else "not equal"
    return _draw(f"Mean reward of the first updates over {', '.join(rewards)}: they are {same}.", paint)


def _bars(axes: Axes, names: Sequence[str], parts: Mapping[str, Sequence[float]], colours: str) -> None:
    left = [0.0] * len(names)
    for colour, (part, values) in zip(colours, parts.items(), strict=True):
        axes.barh(
            names, values, left=left, height=0.55, facecolor=_light(colour), alpha=0.85, label=part,
            edgecolor=_INK, linewidth=0.4, hatch=_HATCHES[colour],
        )  # fmt: skip
        left = [start + value for start, value in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")


def costs(times: Mapping[str, Mapping[str, float]]) -> str:
    """Return what a training step of the batch costs: transport -> part -> microseconds."""
    names = list(times)
    parts = {part: [times[name][part] / 1000 for name in names] for part in next(iter(times.values()))}

    def paint(axes: Axes) -> None:
        _bars(axes, names, parts, "bace")
        axes.set_xlabel("ms a step of the batch")
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handlelength=1.2)

    told = "; ".join(
        f"{name}: {', '.join(f'{part} {value / 1000:.2f} ms' for part, value in times[name].items())}" for name in names
    )
    return _draw(f"What a training step costs. {told}.", paint, 1.3 + 0.45 * len(names))


def shares(found: Mapping[str, float]) -> str:
    """Return the share of a training step that is transport."""
    names = list(found)

    def paint(axes: Axes) -> None:
        _bars(axes, names, {"transport": [found[name] * 100 for name in names]}, "b")
        for row, name in enumerate(names):
            where = (found[name] * 100, row)
            axes.annotate(f"{found[name]:.1%}", where, xytext=(5, 0), textcoords="offset points", va="center")
        axes.set_xlim(0, max(found.values()) * 125)
        axes.set_xlabel("% of a training step")

    told = ", ".join(f"{name} {value:.1%}" for name, value in found.items())
    return _draw(f"Share of a training step that is transport: {told}.", paint, 1.0 + 0.42 * len(names))
