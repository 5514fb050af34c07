"""The charts of a training's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from lucky_transport_migration.bench.drawing import Chart, draw, height_of, look

#: Looks of the style sheet, told apart at a glance, for lines that are no paths.
_COLOURS = ("C0", "C3", "C5", "C4", "C1")
_SMOOTHED = 9  # updates of which a curve shows the running mean
_MARKERS = 25  # so many points of a curve have a marker; in long curves they would hide each other


def curves(
    steps: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    title: str,
    caption: str,
    levels: Mapping[str, float] | None = None,
) -> Chart:
    """Return lines over env steps, smoothed, each over its own pale one, and horizontal `levels`."""
    levels = levels or {}

    def paint(axes: Axes) -> None:
        colours = iter(_COLOURS)
        for (name, values), dash in zip(lines.items(), ("-", "--", ":", "-."), strict=False):
            colour = next(colours)
            axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.7, linestyle="-", marker="")
            axes.plot(steps, _smooth(values), color=colour, linestyle=dash, marker="", label=name)
        for (name, level), dash in zip(levels.items(), (":", "--"), strict=False):
            axes.axhline(level, color=next(colours), linestyle=dash, linewidth=1.4, label=name)
        axes.set_xlim(0, steps[-1])
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_xlabel("env steps")

    told = ", ".join(f"{name} {_smooth(values)[-1]:.2f}" for name, values in lines.items())
    told += "".join(f", {name} {level:.2f}" for name, level in levels.items())
    return draw(title, caption, f"{title} over env steps. At the end: {told}.", paint)


def _smooth(values: Sequence[float]) -> list[float]:
    ends = range(1, len(values) + 1)
    return [sum(part) / len(part) for part in (values[max(0, end - _SMOOTHED) : end] for end in ends)]


def same_curves(rewards: Mapping[str, Sequence[float]], equal: bool, title: str, caption: str) -> Chart:
    """Return the first updates over each transport; where they are equal, the markers lie inside each other."""

    def paint(axes: Axes) -> None:
        for number, (name, values) in enumerate(rewards.items()):
            looks: dict[str, Any] = {
                "color": look(name)["color"],
                "linestyle": "-",
                "linewidth": 1.0,
                "marker": look(name)["marker"],
                "markersize": (13, 8.5, 4)[min(number, 2)],
                "fillstyle": "none",
                "markevery": max(1, len(values) // _MARKERS),
            }
            axes.plot(range(1, len(values) + 1), values, label=name, **looks)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("update")
        axes.margins(y=0.2)

    same = "equal" if equal else "not equal"
    return draw(title, caption, f"{title}, {', '.join(rewards)}: they are {same}.", paint)


def costs(times_us: Mapping[str, Mapping[str, float]], title: str, caption: str) -> Chart:
    """Return what a training step of the batch costs: transport -> part -> microseconds."""
    names = list(times_us)

    def paint(axes: Axes) -> None:
        left = [0.0] * len(names)
        hatches = iter(("////", "", "....", "xxxx"))
        for part in next(iter(times_us.values())):
            ms = [times_us[name][part] / 1000 for name in names]
            axes.barh(names, ms, left=left, height=0.55, label=part, hatch=next(hatches), edgecolor="white")
            left = [start + value for start, value in zip(left, ms, strict=True)]
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("ms a step of the batch")

    told = "; ".join(
        f"{name}: {', '.join(f'{part} {value / 1000:.2f} ms' for part, value in times_us[name].items())}"
        for name in names
    )
    return draw(title, caption, f"{title}. {told}.", paint, height_of(len(names) + 2))
