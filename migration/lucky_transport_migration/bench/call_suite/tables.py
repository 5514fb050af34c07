"""What a suite of calls prints for a person: verdicts, one table a group, targets, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from rich.console import Console

from lucky_transport_migration.bench.tables import show_outcome, show_verdict, supported_us, way
from lucky_transport_migration.console import new_table, print_text
from lucky_transport_migration.units import times_text, us_text

__all__ = ["columns", "grouped", "lost", "show_calls", "times_of"]

Row = Mapping[str, Any]

_UNKNOWN = "–"


def grouped(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows in groups that differ in the way alone, each with its title."""
    for title in dict.fromkeys(row["title"] for row in rows):
        yield title, [row for row in rows if row["title"] == title]


def times_of(row: Row, result: Mapping[str, Any]) -> str:
    """Return how many times longer a row takes than the reference's of its kind; "1" for that row, "" where unknown."""
    keys = ("kind", "what", "rate_hz")
    for one in result["ratios"]:
        if any(one[key] != row[key] for key in keys) or one["wait"] not in (None, result["reference_wait"]):
            continue
        if (one["of"], one["wait"]) == (row["path"], row["wait"]):
            return "1"
        if (one["to"], one["to_wait"]) == (row["path"], row["wait"]):
            return times_text(one["ratio"])
    return ""


def lost(row: Row) -> str:
    """Return what a row lost: a loop of its rate, a stream of its items; "" where there is nothing to lose."""
    if "loss_percent" in row:
        return f"{row['loss_percent']:.1f} %"
    return f"{row['skipped']:,}" if "skipped" in row else ""


_HEADS = ("times", "p50 µs", "p99", "per s", "lost", "CPU c + e", "n")


def columns(rows: Sequence[Row], result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the heads behind the way's, and all cells of each row, as text; without columns that tell nothing."""
    cells = [_cells_of(row, result) for row in rows]
    told = [any(row[at] not in ("", _UNKNOWN) for row in cells) for at in range(len(_HEADS) + 1)]
    told[0] = True
    return list(compress(_HEADS, told[1:])), [list(compress(row, told)) for row in cells]


def _cells_of(row: Row, result: Mapping[str, Any]) -> list[str]:
    """Return the way, and what stands under `_HEADS`."""
    cpu = row.get("cpu_us_each", {})
    known = [us_text(cpu[who]) for who in ("client", "engine") if cpu.get(who) is not None]
    return [
        way(row),
        times_of(row, result),
        us_text(row["us"]["p50"]),
        supported_us(row, "p99"),
        f"{row['per_s']:,.0f}" if "per_s" in row else "",
        lost(row),
        " + ".join(known) or _UNKNOWN,
        f"{row['n']:,}",
    ]


def show_calls(result: Mapping[str, Any]) -> None:
    """Print the result."""
    console = Console()
    show_verdict(console, result)
    for one in result["ratios"]:
        if one["wait"] in (None, result["reference_wait"]):
            print_text(console, one["sentence"])
    for title, rows in grouped(result["rows"]):
        heads, cells = columns(rows, result)
        table = new_table("", *heads, title=title)
        for row in cells:
            table.add_row(*row)
        console.print(table)
    show_outcome(console, result)
