"""The charts of a bench: latency by percentile, and p50 by size.

Plain matplotlib under one style sheet, each a picture of its own with a white ground. Equal input gives equal bytes.
Nothing is told by colour alone: a path has a colour, a dash pattern and a marker, the same in all charts, and each
chart has a sentence that says what it shows to readers that cannot see it.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, NullLocator

from lucky_transport_migration.bench.reading import grouped
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_STYLE = str(files("lucky_transport_migration.bench").joinpath("bench.mplstyle"))
_LOOKS: list[dict[str, Any]] = list(mpl.rc_params_from_file(_STYLE, use_default_template=False)["axes.prop_cycle"])
#: In the order of the style sheet's looks. The last three stand for any other path, which no chart has beside them.
_PATHS = (
    *("shm", "grpc", "grpc-batch", "inproc", "limit", "openra"),
    *("kit-c", "kit-cpp", "kit-csharp"),
)
_ALIKE = {"grpc-tcp": "grpc", "grpc-unix": "grpc-batch"}

_MOST = 2  # of either chart: the first tables are the ones a reader asks for first
_PERCENTS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title, a line that says how to read it, and the sentence that tells it in words.

    source: the picture itself as an address, so that a page needs nothing beside it.
    """

    title: str
    caption: str
    sentence: str
    source: str


def draw(title: str, caption: str, sentence: str, paint: Callable[[Axes], None]) -> Chart:
    """Return the chart that `paint` draws."""
    with style.context(_STYLE):
        figure = Figure()
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        paint(axes)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower left", ncols=2)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Chart(title, caption, sentence, "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode())


def look(path: str) -> dict[str, Any]:
    """Return colour, line style and marker of a path, as matplotlib takes them."""
    name = _ALIKE.get(path, path)
    place = _PATHS.index(name) if name in _PATHS else len(_PATHS) - 1 - sum(name.encode()) % 3
    return _LOOKS[place]


def duration_axis(axis: Any, low_s: float, high_s: float) -> None:
    """Label a logarithmic axis of seconds with durations in the unit that fits."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high_s / low_s < 100 else LogLocator())
    axis.set_major_formatter(EngFormatter("s"))
    axis.set_minor_formatter(NullFormatter())


def charts(result: Result) -> Iterator[Chart]:
    """Yield the charts that a result has something for: each path flat out, in the wait that stands for it."""
    waits = {result["reference"]: result["reference_wait"], "limit": "spin"}
    rows = [row for row in result["rows"] if row["glance"] and not row["again"] and row["rate_hz"] is None]
    tables = [found for _, found in grouped([row for row in rows if row["wait"] == waits.get(row["path"])], "table")]
    for members in [one for one in tables if all("curve" in row for row in one)][:_MOST]:
        yield percentiles([row for row in members if row["column"] == members[0]["column"]])
    for members in [one for one in tables if len({row["size"] for row in one}) > 1][:_MOST]:
        yield by_size(members)


def percentiles(rows: Sequence[Row]) -> Chart:
    """Return the latency of rows of one title at each percentile, by nines, as far as its sample supports it."""
    curves = {row["path"]: row["curve"] for row in rows}
    highest = max(percent for curve in curves.values() for percent, _ in curve)

    def paint(axes: Axes) -> None:
        axes.set_yscale("log")
        for path, curve in curves.items():
            xs, ys = [_nines(percent) for percent, _ in curve], [us / 1e6 for _, us in curve]
            axes.plot(xs, ys, **{**look(path), "marker": ""}, label=label(path))
        shown = [one for one in _PERCENTS if one <= highest and (one or highest < 99.9)]  # p0 is too near p50
        axes.set_xticks([_nines(one) for one in shown], [f"p{one:g}" for one in shown])
        axes.set_xlim(0, max(_nines(highest), 0.1))
        duration_axis(axes.yaxis, *axes.get_ylim())

    title = f"Latency by percentile: {rows[0]['title']}"
    medians = ", ".join(f"{label(row['path'])} {duration_text(row['us']['p50'])}" for row in rows)
    caption = "Logarithmic; lower is better. Drawn as far as the sample supports it."
    return draw(title, caption, f"{title}. At the median: {medians}.", paint)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def by_size(rows: Sequence[Row]) -> Chart:
    """Return p50 of the rows of one table over their sizes."""
    columns: dict[int, str] = {row["size"]: row["column"] for row in sorted(rows, key=lambda row: row["size"])}

    def paint(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for path in dict.fromkeys(row["path"] for row in rows):
            points = {row["size"]: row["us"]["p50"] / 1e6 for row in rows if row["path"] == path}
            sizes = [size for size in columns if size in points]
            axes.plot(sizes, [points[size] for size in sizes], **look(path), label=label(path))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(list(columns), list(columns.values()))
        duration_axis(axes.yaxis, *axes.get_ylim())

    title, last = f"p50 by size: {rows[0]['table']}", max(columns)
    ends = ", ".join(f"{label(row['path'])} {duration_text(row['us']['p50'])}" for row in rows if row["size"] == last)
    return draw(title, "Both axes logarithmic; lower is better.", f"{title}. With {columns[last]}: {ends}.", paint)
