"""The page of a suite of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport_migration.bench.call_suite.charts import charts
from lucky_transport_migration.bench.call_suite.tables import columns, grouped
from lucky_transport_migration.bench.page import Html, details, document, items, section, table
from lucky_transport_migration.bench.report_parts import (
    STANDING_LIMITS,
    changes_section,
    dot,
    header,
    machine,
    reading,
    targets_section,
    verdict_box,
)
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import times_text

__all__ = ["calls_page"]

Result = Mapping[str, Any]


def calls_page(result: Result) -> str:
    """Return the page of a suite's result."""
    lost = [one["sentence"] for one in result["ratios"] if one["word"] != "FASTER"]
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    parts = [
        header(result["title"], result),
        _verdict(result),
        section("Rows", _rows(result)),
        section("Charts", Html('<div class="charts">' + "".join(charts(result)) + "</div>")),
        section(f"Where {label(result['reference'])} does not win", items([*lost, *STANDING_LIMITS])),
        *changes_section(result),
        *targets_section(result),
        section(
            "How this was done",
            details("All comparisons in words", items(one["sentence"] for one in result["ratios"])),
            reading(*result["notes"], *floor),
            *machine(result),
        ),
    ]
    return document(result["title"], parts)


def _verdict(result: Result) -> Html:
    main = [one for one in result["ratios"] if one["main"]]
    big = [(f"{times_text(one['ratio'])}×", f"{label(one['to'])}: {one['title']}") for one in main]
    return verdict_box(result, "", big, "")


def _rows(result: Result) -> Html:
    groups = list(grouped(result["rows"]))
    heads, cells = columns([row for _, rows in groups for row in rows], result)
    told = iter(cells)
    body: list[Sequence[Any] | str] = []
    for title, rows in groups:
        body.append(title)
        for row in rows:
            _, *others = next(told)
            wait = f", {escape(row['wait'])}" if row["wait"] else ""
            body.append((Html(dot(row["path"]) + wait), *others))
    return table(("", *heads), body)
