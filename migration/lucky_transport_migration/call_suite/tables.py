"""What a suite of calls prints for a person: verdicts, one table a group, targets, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from lucky_transport_migration.stats import times_text, us_text
from lucky_transport_migration.tables import new_table, print_text, show_outcome, show_verdict, supported_us, way

__all__ = ["cells_of", "grouped", "lost", "show_calls", "times_of"]

Row = Mapping[str, Any]


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


def cells_of(row: Row, result: Mapping[str, Any]) -> list[str]:
    """Return way, times, p50, p99, rate, what was lost, CPU and n of a row, as text."""
    cpu = row.get("cpu_us_each", {})
    known = [us_text(cpu[who]) for who in ("client", "engine") if cpu.get(who) is not None]
    return [
        way(row),
        times_of(row, result),
        us_text(row["us"]["p50"]),
        supported_us(row, "p99"),
        f"{row['per_s']:,.0f}" if "per_s" in row else "",
        lost(row),
        " + ".join(known) or "–",
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
        table = new_table("", "times", "p50 µs", "p99", "per s", "lost", "CPU c + e", "n", title=title)
        for row in rows:
            table.add_row(*cells_of(row, result))
        console.print(table)
    show_outcome(console, result)
