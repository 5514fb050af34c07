"""A bench's result as Markdown, made to be pasted into a README or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lucky_transport.errors import printable
from lucky_transport_migration.bench import parts
from lucky_transport_migration.bench.reading import is_paced, page_title, rounds_text
from lucky_transport_migration.bench.slower_cases import glance_caption, losses
from lucky_transport_migration.paths import label

__all__ = ["bench_markdown", "bullets", "escaped", "tables"]

Result = Mapping[str, Any]


def bench_markdown(result: Result) -> str:
    """Return the text: verdict, the rows at a glance, targets, and closed how it was done."""
    verdict, environment = result["verdict"], result["environment"]
    lines = [f"## {escaped(page_title(result))}", "", f"**{verdict['word']}** {escaped(verdict['sentence'])}", ""]
    glance = parts.glance(result)
    lines += tables(glance or parts.rows_by_group(result["rows"], result))
    if glance:
        lines += [line for caption in glance_caption(result) for line in (escaped(caption), "")]
        lines += tables(parts.rows_by_group([row for row in result["rows"] if is_paced(row)], result))
        lines += [escaped(f"Where {label(result['reference'])} does not win:"), "", *bullets(losses(result))]
    lines += tables(parts.targets(result))
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    return "\n".join(
        [
            *lines,
            "<details><summary>How this was done</summary>",
            "",
            *bullets([*verdict["beside"], *floor, *result["notes"]])[:-1],
            f"- {escaped(environment['cpu'])}, {environment['usable_cores']} cores, {environment['python']}; "
            f"{rounds_text(result)}",
            f"- `{printable(result['command']).replace('`', chr(39))}`",
            "",
            "</details>",
            "",
        ]
    )


def escaped(name: object) -> str:
    """Return a name as Markdown shows it as it is, in a table too."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(name))


def bullets(texts: Iterable[object]) -> list[str]:
    return [*(f"- {escaped(one)}" for one in texts), ""]


def tables(found: Iterable[parts.ReportTable]) -> list[str]:
    """Return the lines of tables whose first column is text, with an empty line behind each."""
    lines: list[str] = []
    for one in found:
        heads, dashes = tuple(map(escaped, (one.title, *one.heads))), ("---", *("---:" for _ in one.heads))
        lines += [f"| {' | '.join(cells)} |" for cells in (heads, dashes, *(map(_cell, row) for row in one.rows))]
        lines.append("")
    return lines


def _cell(cell: str) -> str:
    """Return a cell; a ratio before a duration is what is read first."""
    times, sign, duration = escaped(cell).partition("× ")
    return f"**{times}×** {duration}" if sign else times
