"""The charts of a bench, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from lucky_transport_migration.bench.page import Html, figure
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.plots.curves import percentile_curves, sweep
from lucky_transport_migration.bench.plots.marks import ratio_intervals, two_sided_dots
from lucky_transport_migration.bench.reading import (
    cpu_each,
    envs_text,
    grouped,
    is_main_ratio,
    is_of_steps,
    is_plain,
)
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import bytes_text

__all__ = ["charts"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_LOG_LOG = "Both axes logarithmic; lower is better."
_MOST_CURVES = 2  # kinds of call drawn by percentile: the first are the ones a reader asks for first
_WIDEST = 28  # characters of a label beside a chart


def charts(result: Result) -> Iterator[Html]:
    """Yield the charts, each with its title and caption."""
    yield from _of_steps(result) if all(map(is_of_steps, result["rows"])) else _of_calls(result)
    yield from _ratios(result)


def _of_steps(result: Result) -> Iterator[Html]:
    plain = [row for row in result["rows"] if is_plain(row, result)] or [row for row in result["rows"] if row["copy"]]
    smallest = min(row["num_envs"] for row in plain)
    single = [row for row in plain if row["num_envs"] == smallest]
    ours, peers = _apart(single, result)
    envs = envs_text(single[0])
    yield _percentiles(ours, "Latency of one exchange", f"Latency by percentile, {envs}")
    if peers:
        yield _percentiles(peers, "Latency of one exchange", f"Beside other ways between processes, {envs}")
    for rows, title in zip(_apart(plain, result), ("", ", other ways"), strict=True):
        what, axis = "p50 of one exchange", "envs in the batch"
        yield from _sweep(rows, "num_envs", what, axis, "{:,}".format, f"p50 by number of envs{title}", _LOG_LOG)
    swept = [row for row in result["rows"] if row["frame_bytes"] is not None]
    for rows, title in zip(_apart(swept, result), ("", ", other ways"), strict=True):
        what, axis = "p50 of one exchange", "size of the frame"
        caption = f"1 env; the engine copies its frame. {_LOG_LOG}"
        yield from _sweep(rows, "frame_bytes", what, axis, bytes_text, f"p50 by size of the frame{title}", caption)
    caption = "Logarithmic. In a closed loop a waiting side that spins burns CPU as long as the step takes."
    yield from _cpu(single, "CPU time per exchange", f"CPU per exchange, both processes, {envs}", caption)


def _of_calls(result: Result) -> Iterator[Html]:
    main = [row for row in result["rows"] if row["wait"] in (None, result["reference_wait"])]
    groups = list(grouped(main))
    calls = [(title, rows) for title, rows in groups if all("curve" in row and "cpu_us_each" in row for row in rows)]
    for title, rows in calls[:_MOST_CURVES]:
        yield _percentiles(rows, title, _capital(title))
    for title, rows in groups:
        if drawn := list(_cpu(rows, "CPU time", "CPU of both processes", f"{_capital(title)}. Logarithmic.")):
            yield from drawn
            return


def _apart(rows: Sequence[Row], result: Result) -> tuple[list[Row], list[Row]]:
    """Return the transports and, where peers were measured, the reference with them."""
    ours = [row for row in rows if row["path"] not in PEERS]
    peers = [row for row in rows if row["path"] in PEERS]
    return ours, [*(row for row in ours if row["path"] == result["reference"]), *peers] if peers else []


def _percentiles(rows: Sequence[Row], what: str, title: str) -> Html:
    caption = "Logarithmic; lower is better. Drawn as far as the sample supports it."
    return figure(percentile_curves({row["path"]: row["curve"] for row in rows}, what), title, caption)


def _sweep(
    rows: Sequence[Row], key: str, what: str, axis: str, text: Callable[[int], str], title: str, caption: str
) -> Iterator[Html]:
    """Yield p50 over the sizes under `key`, where there are several."""
    series: dict[str, dict[int, float]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        series.setdefault(row["path"], {})[row[key]] = row["us"]["p50"]
    series = {path: points for path, points in series.items() if len(points) > 1}
    if series:
        yield figure(sweep(series, what, axis, text), title, caption)


def _cpu(rows: Sequence[Row], what: str, title: str, caption: str) -> Iterator[Html]:
    """Yield the CPU time of client and engine, where two ways or more tell it."""
    used = {row["path"]: (client, engine) for row in rows for client, engine in [cpu_each(row)] if client is not None}
    if len(used) > 1:
        yield figure(two_sided_dots(used, f"{what}, client and engine"), title, caption)


def _ratios(result: Result) -> Iterator[Html]:
    """Yield the ratios to the reference, with the noise floor as a band."""
    found: dict[str, list[tuple[str, str, float, float, float]]] = {}
    floors: list[float] = []
    for one in result["ratios"]:
        if not is_of_steps(one):
            title, text = "", fill(f"{one['to']}: {one['title']}", _WIDEST)
            shown = one["main"]
        else:
            title = ", one exchange" if one["level"] == "transport" else ", VectorEnv.step"
            name = f"{label('limit')} ({one['to_wait']})" if one["to"] == "limit" else label(one["to"])
            text = f"{name}, {one['num_envs']:,}"
            shown = one["to"] != one["of"] and one["engine"] == result["engine"] and is_main_ratio(one)
        if shown:
            found.setdefault(title, []).append((one["to"], text, one["ratio"], one["low"], one["high"]))
            floors.append(one.get("floor") or (result["noise_floor"] or {"floor": 1.0})["floor"])
    for title, points in found.items():
        yield figure(
            ratio_intervals(points, max(floors), label(result["reference"])),
            f"Ratios with their intervals{title}",
            "Right of the line: slower than the reference. The band is what measuring twice gave at most (A/A).",
        )


def _capital(title: str) -> str:
    return f"{title[:1].upper()}{title[1:]}"
