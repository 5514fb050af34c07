"""A bench's result as Markdown, made to be pasted into a README or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lucky_transport.errors import printable
from lucky_transport_migration.bench import parts
from lucky_transport_migration.bench.reading import page_title, rounds_text
from lucky_transport_migration.bench.slower_cases import glance_caption, losses
from lucky_transport_migration.paths import label

__all__ = ["bench_markdown"]

Result = Mapping[str, Any]


def bench_markdown(result: Result) -> str:
    """Return the text: verdict, changes, the rows at a glance, targets, and closed how it was done."""
    verdict, environment = result["verdict"], result["environment"]
    lines = [f"## {_text(page_title(result))}", "", f"**{verdict['word']}** {_text(verdict['sentence'])}", ""]
    if changed := parts.changes(result):
        lines += [_text(changed[0]), "", *_items(changed[1:])]
    glance = parts.glance(result)
    lines += _tables(glance or parts.rows_by_group(result["rows"], result))
    if glance:
        lines += [line for caption in glance_caption(result) for line in (_text(caption), "")]
        lines += [_text(f"Where {label(result['reference'])} does not win:"), "", *_items(losses(result))]
    lines += _tables(parts.targets(result))
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    return "\n".join(
        [
            *lines,
            "<details><summary>How this was done</summary>",
            "",
            *_items([*verdict["beside"], *floor, *result["notes"]])[:-1],
            f"- {_text(environment['cpu'])}, {environment['usable_cores']} cores, {environment['python']}; "
            f"{rounds_text(result)}",
            f"- `{printable(result['command']).replace('`', chr(39))}`",
            "",
            "</details>",
            "",
        ]
    )


def _text(name: object) -> str:
    """Return a name as Markdown shows it as it is, in a table too."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(name))


def _items(texts: Iterable[object]) -> list[str]:
    return [*(f"- {_text(one)}" for one in texts), ""]


def _tables(tables: Iterable[parts.ReportTable]) -> list[str]:
    """Return the lines of tables whose first column is text, with an empty line behind each."""
    lines: list[str] = []
    for one in tables:
        heads, dashes = tuple(map(_text, (one.title, *one.heads))), ("---", *("---:" for _ in one.heads))
        lines += [f"| {' | '.join(cells)} |" for cells in (heads, dashes, *(map(_cell, row) for row in one.rows))]
        lines.append("")
    return lines


def _cell(text: str) -> str:
    """Return a cell; a ratio before a duration is what is read first."""
    times, sign, duration = _text(text).partition("× ")
    return f"**{times}×** {duration}" if sign else times
