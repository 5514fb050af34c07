"""The charts of a bench: percentiles, and p50 by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from lucky_transport_migration.bench.drawing import Chart, draw, duration_axis, look
from lucky_transport_migration.bench.reading import (
    envs_text,
    grouped,
    is_main_ratio,
    is_of_steps,
    is_plain,
)
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import bytes_text, duration_text

__all__ = ["by_size", "charts", "percentiles"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_MOST_CURVES = 2  # kinds of call drawn by percentile: the first are the ones a reader asks for first
_PERCENTS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)


def charts(result: Result) -> Iterator[Chart]:
    """Yield the charts that a result has something for."""
    yield from _of_steps(result) if all(map(is_of_steps, result["rows"])) else _of_calls(result)


def _of_steps(result: Result) -> Iterator[Chart]:
    steps = [row for row in result["rows"] if is_main_ratio(row) and row["copy"] and row["engine"] == result["engine"]]
    plain = [row for row in result["rows"] if is_plain(row, result)] or steps
    smallest = min(row["num_envs"] for row in plain)
    single = [row for row in plain if row["num_envs"] == smallest]
    envs = envs_text(single[0])
    what = "exchange" if single[0]["level"] == "transport" else "step"
    yield percentiles(single, f"Latency by percentile, {envs}", f"Latency of one {what}")
    yield from by_size(plain, "num_envs", "p50 by number of envs", "envs in the batch", "{:,}".format)
    swept = [row for row in result["rows"] if row["frame_bytes"] is not None]
    yield from by_size(swept, "frame_bytes", "p50 by size of the frame, 1 env", "size of the frame", bytes_text)


def _of_calls(result: Result) -> Iterator[Chart]:
    main = [row for row in result["rows"] if row["wait"] in (None, result["reference_wait"])]
    for title, rows in [one for one in grouped(main) if all("curve" in row for row in one[1])][:_MOST_CURVES]:
        yield percentiles(rows, f"{title[:1].upper()}{title[1:]}", title)


def percentiles(rows: Sequence[Row], title: str, what: str) -> Chart:
    """Return the latency of each row at each percentile, by nines, as far as its sample supports it."""
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

    medians = ", ".join(f"{label(path)} {duration_text(_median(curve))}" for path, curve in curves.items())
    sentence = f"{what} by percentile. At the median: {medians}."
    return draw(title, "Logarithmic; lower is better. Drawn as far as the sample supports it.", sentence, paint)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _median(curve: Sequence[Sequence[float]]) -> float:
    return min(curve, key=lambda point: abs(point[0] - 50.0))[1]


def by_size(rows: Sequence[Row], key: str, title: str, axis: str, text: Callable[[int], str]) -> Iterator[Chart]:
    """Yield p50 over the sizes under `key`, where there are several; `axis` names the sizes, `text` writes one."""
    series: dict[str, dict[int, float]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        series.setdefault(row["path"], {})[row[key]] = row["us"]["p50"]
    series = {path: points for path, points in series.items() if len(points) > 1}
    if not series:
        return
    sizes = sorted({size for points in series.values() for size in points})

    def paint(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for path, points in series.items():
            axes.plot(list(points), [us / 1e6 for us in points.values()], **look(path), label=label(path))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(sizes, [text(size) for size in sizes])
        axes.set_xlabel(axis)
        duration_axis(axes.yaxis, *axes.get_ylim())

    ends = ", ".join(f"{label(path)} {duration_text(p[sizes[-1]])}" for path, p in series.items() if sizes[-1] in p)
    yield draw(title, "Both axes logarithmic; lower is better.", f"{title}. At {text(sizes[-1])}: {ends}.", paint)
