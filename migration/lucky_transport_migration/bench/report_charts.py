"""The charts of a bench of steps, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lucky_transport_migration.bench.headline_ratios import envs_text, is_main_ratio, is_plain
from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.page import Html, figure
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.plots.curves import sweep
from lucky_transport_migration.bench.plots.distribution import ridges
from lucky_transport_migration.bench.plots.marks import two_sided_dots
from lucky_transport_migration.bench.report_figures import LOG_LOG, percentile_figure, ratio_figure
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import bytes_text

__all__ = ["charts"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]


def charts(result: Result) -> Iterator[Html]:
    """Yield the charts, each with its title and caption."""
    plain = [row for row in result["rows"] if is_plain(row, result)] or [row for row in result["rows"] if row["copy"]]
    smallest = min(row["num_envs"] for row in plain)
    single = [row for row in plain if row["num_envs"] == smallest]
    ours, peers = _apart(single, result)
    envs = envs_text(single[0])
    yield _percentiles(ours, f"Latency by percentile, {envs}")
    if peers:
        yield _percentiles(peers, f"Beside other ways between processes, {envs}")
    yield from _by_envs(plain, result)
    yield from _by_payload(result)
    yield _cpu([row for row in single if row["cpu_us_per_step"]["client"] is not None], envs)
    yield _spread(single, result, envs)
    yield from _ratios(result)


def _apart(rows: Sequence[Row], result: Result) -> tuple[list[Row], list[Row]]:
    """Return the transports and, where peers were measured, the reference with them."""
    ours = [row for row in rows if row["path"] not in PEERS]
    peers = [row for row in rows if row["path"] in PEERS]
    return ours, [*(row for row in ours if row["path"] == result["reference"]), *peers] if peers else []


def _percentiles(rows: Sequence[Row], title: str) -> Html:
    return percentile_figure({row["path"]: row["curve"] for row in rows}, "Latency of one exchange", title)


def _by_envs(plain: Sequence[Row], result: Result) -> Iterator[Html]:
    """Yield p50 over the batch sizes, for the transports and for the peers."""
    if len({row["num_envs"] for row in plain}) < 2:
        return
    titles = ("p50 by number of envs", "p50 by number of envs, other ways")
    for title, rows in zip(titles, _apart(plain, result), strict=True):
        series = _series(rows, "num_envs")
        if series:
            yield figure(sweep(series, "p50 of one exchange", "envs in the batch", "{:,}".format), title, LOG_LOG)


def _by_payload(result: Result) -> Iterator[Html]:
    swept = [row for row in result["rows"] if row["frame_bytes"] is not None]
    if len({row["frame_bytes"] for row in swept}) < 2:
        return
    titles = ("p50 by size of the frame", "p50 by size of the frame, other ways")
    for title, rows in zip(titles, _apart(swept, result), strict=True):
        series = _series(rows, "frame_bytes")
        if series:
            drawn = sweep(series, "p50 of one exchange", "size of the frame", bytes_text)
            yield figure(drawn, title, "1 env; the engine copies its frame. " + LOG_LOG)


def _series(rows: Sequence[Row], key: str) -> dict[str, dict[int, float]]:
    """Return {path: {size: p50}} of the paths that were measured at several sizes."""
    series: dict[str, dict[int, float]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        series.setdefault(row["path"], {})[row[key]] = row["us"]["p50"]
    return {path: points for path, points in series.items() if len(points) > 1}


def _cpu(rows: Sequence[Row], envs: str) -> Html:
    used = {row["path"]: (row["cpu_us_per_step"]["client"], row["cpu_us_per_step"]["engine"]) for row in rows}
    return figure(
        two_sided_dots(used, "CPU time per exchange, client and engine"),
        f"CPU per exchange, both processes, {envs}",
        "Logarithmic. In a closed loop a waiting side that spins burns CPU as long as the step takes.",
    )


def _spread(rows: Sequence[Row], result: Result, envs: str) -> Html:
    order = sorted(rows, key=lambda row: row["us"]["p50"])
    counts = {row["path"]: Histogram.decoded(row["hdr"]).counts() for row in order}
    floor = result["noise_floor"]
    again = None if floor is None else (floor["path"], Histogram.decoded(floor["row"]["hdr"]).counts())
    if again is not None and again[0] not in counts:
        again = None
    dashed = "" if again is None else f" Dashed: {label(again[0])} measured again (A/A), the noise of this run."
    return figure(
        ridges(counts, again, "How long exchanges took"),
        f"Distribution, {envs}",
        f"All rounds together; the higher, the more often.{dashed}",
    )


def _ratios(result: Result) -> Iterator[Html]:
    for level, title in (("transport", "one exchange"), ("env", "VectorEnv.step")):
        points = [
            (one["to"], _ratio_text(one), one["ratio"], one["low"], one["high"])
            for one in result["ratios"]
            if one["to"] != one["of"]
            and one["level"] == level
            and one["engine"] == result["engine"]
            and is_main_ratio(one)
        ]
        if points:
            yield ratio_figure(points, result, f"Ratios with their intervals, {title}")


def _ratio_text(one: Mapping[str, Any]) -> str:
    name = f"{label('limit')} ({one['to_wait']})" if one["to"] == "limit" else label(one["to"])
    return f"{name}, {one['num_envs']:,}"
