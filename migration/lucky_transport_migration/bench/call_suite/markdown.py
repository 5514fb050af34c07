"""The result of a suite of calls as Markdown: targets and rows, to be pasted into a README or an issue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport_migration.bench.call_suite.tables import columns, grouped
from lucky_transport_migration.bench.markdown import foot, head, table

__all__ = ["calls_markdown"]


def calls_markdown(result: Mapping[str, Any]) -> str:
    """Return the text."""
    lines = head(result, result["title"])
    for title, rows in grouped(result["rows"]):
        heads, cells = columns(rows, result)
        lines += table((title, *heads), cells)
    return "\n".join([*lines, *foot(result)])
