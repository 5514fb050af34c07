"""What a report of a bench consists of, as sentences and tables: the same for page, Markdown and terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport_migration.bench.reading import (
    AGAIN,
    columns,
    envs_text,
    grouped,
    is_again,
    is_main_group,
    is_of_steps,
    is_plain,
    name_of,
    rows_with_floor,
    stands_for_its_path,
    times_of,
    way,
)
from lucky_transport_migration.bench.stats import LEAST_COVERAGE
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text

__all__ = [
    "HOW_TO_READ",
    "ReportTable",
    "compared",
    "glance",
    "lead",
    "numbers",
    "outcomes",
    "rows_by_group",
    "targets",
]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

HOW_TO_READ = (
    "p50, p99, p99.9: half, 99 % and 99.9 % of the steps took at most so long. A dash stands where the sample is "
    "too small: p99 needs 500 steps, p99.9 needs 5,000, p99.99 needs 100,000.",
    "A ratio is the median of ratios taken inside one run, side by side; the range behind it holds the true one in "
    "at least 95 % of runs. Fewer than six rounds give none. Each ratio is judged alone.",
    "CPU per step counts all threads of a process, so work that overlaps with waiting is in it.",
)
_LEVELS = {"transport": "One exchange", "env": "VectorEnv.step(copy=True)"}


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A title that stands over the first column, the heads of the others, and rows of text."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def lead(result: Result) -> str:
    """Return how long the reference takes, "" where no row says it in general."""
    ours = [row for row in result["rows"] if row["path"] == result["reference"]]
    plain = [row for row in ours if is_plain(row, result)]
    what = "exchange" if plain else "step"
    if not plain and "parity" in result:
        plain = [row for row in ours if row["engine"] == result["engine"]]
    shown = ", ".join(f"{duration_text(row['us']['p50'])} with {envs_text(row)}" for row in plain)
    return f"One {what} over {label(result['reference'])} takes {shown} (p50)." if shown else ""


def numbers(ratios: Iterable[Row], with_path: bool) -> list[tuple[str, str]]:
    """Return the ratios as big numbers, each with what it is, and with what it is compared with if so."""
    found: list[tuple[str, str]] = []
    for one in ratios:
        what = envs_text(one) if is_of_steps(one) else str(one["title"])
        path = f"{label(one['to'])}, " if with_path else ""
        found.append((f"{times_text(one['ratio'])}×", f"{path}{what} {_interval(one)}".strip()))
    return found


def _interval(one: Row) -> str:
    """Return a ratio's interval in brackets, "" where there were too few rounds for one."""
    known = one["coverage"] >= LEAST_COVERAGE if "coverage" in one else one.get("rounds") != 1
    return f"({times_text(one['low'])} to {times_text(one['high'])})" if known else ""


def outcomes(result: Result) -> str:
    """Return how many targets had which outcome."""
    words = [one["word"] for one in result.get("targets", ())]
    return ", ".join(f"{words.count(one)} {one}" for one in dict.fromkeys(words))


def glance(result: Result) -> list[ReportTable]:
    """Return a table per level: one row a way, the fastest first, and one column a batch size; none of calls."""
    if not all(map(is_of_steps, result["rows"])):
        return []
    rows = [
        row
        for row in rows_with_floor(result)
        if row["engine"] == result["engine"] and is_main_group(row) and stands_for_its_path(row, result)
    ]
    tables: list[ReportTable] = []
    for level, title in _LEVELS.items():
        chosen = [row for row in rows if row["level"] == level]
        sizes = sorted({row["num_envs"] for row in chosen})
        names = dict.fromkeys(name_of(row, result) for row in chosen)
        at = {(name_of(row, result), row["num_envs"]): row for row in reversed(chosen)}
        order = sorted(names, key=lambda name: next(at[name, n]["us"]["p50"] for n in sizes if (name, n) in at))
        cells = [(name, *(_times_and_p50(at.get((name, n)), result) for n in sizes)) for name in order]
        tables += [ReportTable(title, [envs_text({"num_envs": n}) for n in sizes], cells)] if cells else []
    return tables


def _times_and_p50(row: Row | None, result: Result) -> str:
    if row is None:
        return "–"
    times, p50 = times_of(row, result), duration_text(row["us"]["p50"])
    return p50 if times is None else f"{times_text(times)}× {p50}"


def rows_by_group(rows: Sequence[Row], result: Result, *, detailed: bool = False) -> list[ReportTable]:
    """Return a table per group of rows that differ in the way alone."""
    tables: list[ReportTable] = []
    for title, members in grouped(rows):
        heads, cells = columns(members, result, detailed=detailed)
        names = [f"{way(row)}, {AGAIN}" if is_again(row, result) else way(row) for row in members]
        tables.append(ReportTable(title, heads, [(name, *one) for name, one in zip(names, cells, strict=True)]))
    return tables


def targets(result: Result) -> list[ReportTable]:
    """Return the targets of a result that was checked."""
    rows = [
        (
            str(one["name"]),
            str(one["word"]),
            "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}",
            f"{one['sense']} {one['goal']:g} {one['unit']}",
        )
        for one in result.get("targets", ())
    ]
    return [ReportTable("target", ("outcome", "measured", "goal"), rows)] if rows else []


def compared(result: Result) -> list[ReportTable]:
    """Return what a result's proof of parity compared, by mode; none of a result without one."""
    if "parity" not in result:
        return []
    modes = result["parity"]["compared"]["modes"].items()
    rows = [
        (mode, *(f"{one[name]:,}" for name in ("steps", "values", "terminations", "truncations")))
        for mode, one in modes
    ]
    return [ReportTable("compared bit for bit", ("steps", "values", "terminated", "truncated"), rows)]
