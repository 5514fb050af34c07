"""The charts of a suite of calls: latencies by percentile, sizes where they were swept, CPU, ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from lucky_transport_migration.bench.call_suite.tables import grouped
from lucky_transport_migration.bench.page import Html, figure
from lucky_transport_migration.bench.plots.curves import sweep
from lucky_transport_migration.bench.plots.marks import two_sided_dots
from lucky_transport_migration.bench.report_figures import LOG_LOG, percentile_figure, ratio_figure
from lucky_transport_migration.units import bytes_text

__all__ = ["charts"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_MOST_CURVES = 2  # kinds of call drawn by percentile: the first are the ones a reader asks for first
_WIDEST = 28  # characters of a label beside a chart


def charts(result: Result) -> Iterator[Html]:
    """Yield the charts, each with its title and caption."""
    yield from _percentiles(result)
    yield from _sweeps(result)
    yield from _cpu(result)
    yield from _ratios(result)


def _main(rows: Sequence[Row], result: Result) -> list[Row]:
    """Return the rows in the waiting strategy that stands for their path."""
    return [row for row in rows if row["wait"] in (None, result["reference_wait"])]


def _percentiles(result: Result) -> Iterator[Html]:
    groups = [(title, _main(rows, result)) for title, rows in grouped(result["rows"])]
    calls = [(title, rows) for title, rows in groups if all("curve" in row and "cpu_us_each" in row for row in rows)]
    for title, rows in calls[:_MOST_CURVES]:
        yield percentile_figure({row["path"]: row["curve"] for row in rows}, title, _capital(title))


def _sweeps(result: Result) -> Iterator[Html]:
    """Yield the time per item over its size, for each form whose rows tell it."""
    sized = [row for row in _main(result["rows"], result) if row.get("item_bytes")]
    for what in dict.fromkeys(row["form"] for row in sized):
        series: dict[str, dict[int, float]] = {}
        for row in sorted(sized, key=lambda row: row["item_bytes"]):
            if row["form"] == what:
                series.setdefault(row["path"], {})[row["item_bytes"]] = row["us"]["p50"]
        if len({size for points in series.values() for size in points}) > 1:
            drawn = sweep(series, f"Time per picture, {what}", "bytes of a picture", bytes_text)
            yield figure(drawn, f"By size, {what}", LOG_LOG)


def _cpu(result: Result) -> Iterator[Html]:
    for title, rows in grouped(_main(result["rows"], result)):
        used = {row["path"]: row["cpu_us_each"] for row in rows if "cpu_us_each" in row}
        known = {path: (cpu["client"], cpu["engine"]) for path, cpu in used.items() if cpu["client"]}
        if len(known) > 1:
            yield figure(
                two_sided_dots(known, "CPU time, client and engine"),
                "CPU of both processes",
                f"{_capital(title)}. Logarithmic.",
            )
            return


def _ratios(result: Result) -> Iterator[Html]:
    points = [
        (one["to"], fill(f"{one['to']}: {one['title']}", _WIDEST), one["ratio"], one["low"], one["high"])
        for one in result["ratios"]
        if one["main"]
    ]
    if points:
        yield ratio_figure(points, result, "Ratios with their intervals")


def _capital(title: str) -> str:
    return f"{title[:1].upper()}{title[1:]}"
