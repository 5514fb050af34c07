"""The result of a suite of calls as Markdown: targets and rows, to be pasted into a README or an issue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lucky_transport_migration.call_suite.tables import cells_of, grouped
from lucky_transport_migration.stats import times_text

__all__ = ["calls_markdown"]


def calls_markdown(result: Mapping[str, Any]) -> str:
    """Return the text."""
    lines = [f"## {result['title']}", ""]
    if result.get("targets"):
        lines += [*_table(("target", "outcome", "measured", "goal"), map(_target, result["targets"])), ""]
    for title, rows in grouped(result["rows"]):
        heads = (title, "times", "p50 µs", "p99", "per s", "lost", "CPU c + e", "n")
        lines += [*_table(heads, (cells_of(row, result) for row in rows)), ""]
    return "\n".join([*lines, *(f"- {note}" for note in result["notes"]), ""])


def _target(one: Mapping[str, Any]) -> Sequence[str]:
    measured = "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}"
    return one["name"], one["word"], measured, f"{one['sense']} {one['goal']:g} {one['unit']}"


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    columns = ("---", *("---:" for _ in heads[1:]))
    return [f"| {' | '.join(cells)} |" for cells in (heads, columns, *rows)]
