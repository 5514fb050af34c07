"""The result of a bench of steps as Markdown: the glance, where the reference does not win, how it was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport_migration.bench.bench_summary import CAPTION, Seen, bench_summaries
from lucky_transport_migration.bench.markdown import foot, head, table
from lucky_transport_migration.bench.slower_cases import losses
from lucky_transport_migration.bench.suites.steps import IDLE
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["bench_markdown"]


def bench_markdown(result: Mapping[str, Any]) -> str:
    """Return the text."""
    lines = head(result, f"Transports of {result['engine']}")
    for one in bench_summaries(result):
        rows = ([name, *(_cell(cell) for cell in cells)] for _, name, cells in one.rows)
        lines += table((one.title, *one.sizes), rows)
    if result["engine"] == IDLE:
        lines += [CAPTION, ""]
    lines += [f"Where {label(result['reference'])} does not win:", "", *(f"- {one}" for one in losses(result)), ""]
    return "\n".join([*lines, *foot(result)])


def _cell(cell: Seen | None) -> str:
    if cell is None:
        return "–"
    times = "" if cell.times is None else f"**{times_text(cell.times)}×** "
    return f"{times}{duration_text(cell.p50_us)}"
