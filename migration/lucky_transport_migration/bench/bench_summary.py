"""A run of steps at a glance: one row a way, one column a batch size, in each cell the ratio and p50.

Page and Markdown take it from here; a ratio is one of the result, never made of two medians here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport_migration.bench.headline_ratios import envs_text, is_main_group, stands_for_its_path, times_shm
from lucky_transport_migration.paths import label

__all__ = ["AGAIN", "CAPTION", "BenchSummary", "Seen", "bench_summaries", "is_again", "name_of", "rows_with_floor"]

#: Behind the name of the way that was measured a second time.
AGAIN = "again (A/A)"

#: Below the tables: what their engine does, and where like is compared with like.
CAPTION = (
    "Times as long as the reference, and p50. The engine does nothing, so over shared memory no frame is copied; "
    "all others send theirs. Rows with an engine that copies its frame are among all rows."
)

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_TITLES = {"transport": "One exchange", "env": "VectorEnv.step(copy=True)"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A cell: how many times longer than the reference, None where nothing was compared, and p50 in microseconds."""

    times: float | None
    p50_us: float


@dataclass(frozen=True, slots=True)
class BenchSummary:
    """One level: its title, its batch sizes as text, and per way its path, its name and a cell per size."""

    title: str
    sizes: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Seen | None, ...]], ...]


def name_of(row: Row, result: Result) -> str:
    """Return what a table calls the row's way."""
    name = label(row["path"])
    if row["path"] == "limit":
        return f"{name} ({row['wait']})"
    return f"{name}, {AGAIN}" if is_again(row, result) else name


def is_again(row: Row, result: Result) -> bool:
    """True for the row of the second measurement of an A/A pair."""
    return bool(result["noise_floor"]) and row is result["noise_floor"]["row"]


def rows_with_floor(result: Result) -> list[Row]:
    """Return the rows of a result, that of the second measurement behind its twin."""
    rows: list[Row] = list(result["rows"])
    if result["noise_floor"]:
        again = result["noise_floor"]["row"]
        keys = ("level", "path", "wait", "num_envs", "engine", "actions", "copy", "rate_hz", "frame_bytes")
        twins = (i for i, row in enumerate(rows) if all(row[key] == again[key] for key in keys))
        rows.insert(next(twins, len(rows) - 1) + 1, again)
    return rows


def bench_summaries(result: Result) -> Iterator[BenchSummary]:
    """Yield the levels that were measured, the fastest way of each first."""
    rows = [
        row
        for row in rows_with_floor(result)
        if row["engine"] == result["engine"] and is_main_group(row) and stands_for_its_path(row, result)
    ]
    for level, title in _TITLES.items():
        chosen = [row for row in rows if row["level"] == level]
        sizes = sorted({row["num_envs"] for row in chosen})
        if not sizes:
            continue
        ways = dict.fromkeys((row["path"], name_of(row, result)) for row in chosen)
        cells = {way: tuple(_seen(chosen, way, size, result) for size in sizes) for way in ways}
        order = sorted(ways, key=lambda way: _first(cells[way]))
        yield BenchSummary(
            title,
            tuple(envs_text({"num_envs": size}) for size in sizes),
            tuple((path, name, cells[path, name]) for path, name in order),
        )


def _seen(rows: list[Row], way: tuple[str, str], size: int, result: Result) -> Seen | None:
    for row in rows:
        if row["num_envs"] == size and (row["path"], name_of(row, result)) == way:
            times = result["noise_floor"]["ratio"] if is_again(row, result) else times_shm(row, result)
            return Seen(times, float(row["us"]["p50"]))
    return None


def _first(cells: tuple[Seen | None, ...]) -> float:
    return next(one.p50_us for one in cells if one is not None)
