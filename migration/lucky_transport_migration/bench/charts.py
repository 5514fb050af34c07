"""The charts of a bench, in the order of a reader's questions: percentiles, p50 by size, CPU, ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from lucky_transport_migration.bench.drawing import (
    Chart,
    draw,
    duration_axis,
    height_of,
    log_ticks,
    look,
    whole_decades,
)
from lucky_transport_migration.bench.reading import (
    cpu_each,
    envs_text,
    grouped,
    is_main_ratio,
    is_of_steps,
    is_plain,
)
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import bytes_text, duration_text, times_text

__all__ = ["by_size", "charts", "cpu", "percentiles", "ratios"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_MOST_CURVES = 2  # kinds of call drawn by percentile: the first are the ones a reader asks for first
_WIDEST = 28  # characters of a label beside a chart
_WITHIN_ROW = 0.7  # of a row's height that the points of its ways take
_PERCENTS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
_LOWEST_US = 1e-3  # what a logarithmic axis shows for none


def charts(result: Result) -> Iterator[Chart]:
    """Yield the charts that a result has something for."""
    yield from _of_steps(result) if all(map(is_of_steps, result["rows"])) else _of_calls(result)
    yield from _of_ratios(result)


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
    yield from cpu(single, f"CPU per {what}, both processes, {envs}")


def _of_calls(result: Result) -> Iterator[Chart]:
    main = [row for row in result["rows"] if row["wait"] in (None, result["reference_wait"])]
    groups = list(grouped(main))
    for title, rows in [one for one in groups if all("curve" in row for row in one[1])][:_MOST_CURVES]:
        yield percentiles(rows, _capital(title), title)
    for title, rows in groups:
        if drawn := list(cpu(rows, f"CPU of both processes: {title}")):
            yield from drawn
            return


def _of_ratios(result: Result) -> Iterator[Chart]:
    """Yield the ratios to the reference, with the noise floor as a band."""
    found: dict[str, dict[str, list[Row]]] = {}
    for one in result["ratios"]:
        if not is_of_steps(one):
            title, text, shown = "", str(one["title"]), one["main"]
        else:
            title = ", one exchange" if one["level"] == "transport" else ", VectorEnv.step"
            text = envs_text(one)
            shown = one["to"] != one["of"] and one["engine"] == result["engine"] and is_main_ratio(one)
        if shown:
            found.setdefault(title, {}).setdefault(text, []).append(one)
    for title, rows in found.items():
        floors = [
            one.get("floor") or (result["noise_floor"] or {"floor": 1.0})["floor"]
            for row in rows.values()
            for one in row
        ]
        yield ratios(rows, max(floors), f"Ratios with their intervals{title}", label(result["reference"]))


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


def cpu(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """Yield the CPU time of client and engine, where two ways or more tell it."""
    used = {row["path"]: (client, engine) for row in rows for client, engine in [cpu_each(row)] if client is not None}
    if len(used) < 2:
        return

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        for place, (name, marker, fill_) in enumerate((("client", "o", "full"), ("engine", "s", "none"))):
            known = [(row, pair[place]) for row, pair in enumerate(used.values()) if pair[place] is not None]
            if not known:
                continue
            xs, ys = [max(us or 0.0, _LOWEST_US) / 1e6 for _, us in known], [row for row, _ in known]
            axes.plot(xs, ys, color="black", linestyle="", marker=marker, fillstyle=fill_, markersize=6, label=name)
        _rows(axes, [label(path) for path in used])
        used_s = [max(us or 0.0, _LOWEST_US) / 1e6 for pair in used.values() for us in pair if us is not None]
        axes.set_xlim(*whole_decades(min(used_s), max(used_s)))
        duration_axis(axes.xaxis, *axes.get_xlim())

    told = "; ".join(
        f"{label(path)}: client {duration_text(client)}"
        + ("" if engine is None else f", engine {duration_text(engine)}")
        for path, (client, engine) in used.items()
    )
    caption = "Logarithmic. In a closed loop a waiting side that spins burns CPU as long as the step takes."
    yield draw(title, caption, f"{title}, client and engine. {told}.", paint, height_of(len(used)))


def ratios(rows: Mapping[str, Sequence[Row]], floor: float, title: str, reference: str) -> Chart:
    """Return ratios as points with intervals, those of one kind of call below each other beside its text.

    The band is what A/A showed at most.
    """
    shown = [(text, one) for text, row in rows.items() for one in row]

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.axvspan(1 / floor, floor, color="black", alpha=0.14, linewidth=0)
        axes.axvline(1.0, color="black", linewidth=0.8)
        series: dict[str, tuple[str, list[tuple[float, Row]]]] = {}
        for place, row in enumerate(rows.values()):
            for number, one in enumerate(row):
                shift = (number - (len(row) - 1) / 2) * _WITHIN_ROW / len(row)
                series.setdefault(_way(one), (one["to"], []))[1].append((place + shift, one))
        markers: list[str] = []
        for name, (path, points) in series.items():
            drawn: dict[str, Any] = look(path)
            ground = "white" if drawn["marker"] in markers else drawn["color"]  # a second way of the same look
            markers.append(drawn["marker"])
            xs = [one["ratio"] for _, one in points]
            reach = [
                [one["ratio"] - one["low"] for _, one in points],
                [one["high"] - one["ratio"] for _, one in points],
            ]
            axes.errorbar(
                xs,
                [y for y, _ in points],
                xerr=reach,
                color=drawn["color"],
                marker=drawn["marker"],
                markerfacecolor=ground,
                linestyle="",
                label=name,
            )
        _rows(axes, [fill(text, _WIDEST) for text in rows])
        axes.margins(x=0.1)
        axes.xaxis.set_major_locator(log_ticks(*axes.get_xlim(), most=5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}×"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(f"times as long as {reference}")

    told = "; ".join(f"{_way(one)}, {text}: {times_text(one['ratio'])} times" for text, one in shown)
    lines = sum(max(fill(text, _WIDEST).count("\n") / 2, (len(row) - 1) * _WITHIN_ROW) for text, row in rows.items())
    caption = "Right of the line: slower than the reference. The band is what measuring twice gave at most (A/A)."
    height_in = height_of(len(rows) + round(lines))
    return draw(title, caption, f"How many times longer than {reference}. {told}.", paint, height_in)


def _way(one: Row) -> str:
    """Return what a ratio compares with, as a legend names it."""
    return f"{label('limit')} ({one['to_wait']})" if one["to"] == "limit" and is_of_steps(one) else label(one["to"])


def _rows(axes: Axes, texts: Sequence[str]) -> None:
    """Write one text a row, the first on top."""
    axes.set_ylim(len(texts) - 0.4, -0.6)
    axes.yaxis.set_major_locator(FixedLocator(range(len(texts))))
    axes.set_yticks(range(len(texts)), texts)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def _capital(title: str) -> str:
    return f"{title[:1].upper()}{title[1:]}"
