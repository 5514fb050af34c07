"""A bench's result as Markdown, made to be pasted into a README or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lucky_transport.errors import printable
from lucky_transport_migration.bench.reading import Seen, columns, grouped, page_title, summaries, way
from lucky_transport_migration.bench.slower_cases import glance_caption, losses
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["bench_markdown"]

Result = Mapping[str, Any]


def bench_markdown(result: Result) -> str:
    """Return the text: verdict, changes, the rows at a glance, targets, and closed how it was done."""
    verdict = result["verdict"]
    lines = [f"## {_text(page_title(result))}", "", f"**{verdict['word']}** {_text(verdict['sentence'])}", ""]
    lines += _changes(result)
    shown = list(summaries(result))
    for one in shown:
        rows = ([_text(name), *map(_cell, cells)] for _, name, cells in one.rows)
        lines += _table(tuple(map(_text, (one.title, *one.sizes))), rows)
    if shown:
        lines += [line for caption in glance_caption(result) for line in (_text(caption), "")]
        where = f"Where {label(result['reference'])} does not win:"
        lines += [_text(where), "", *(f"- {_text(one)}" for one in losses(result)), ""]
    else:
        for title, rows in grouped(result["rows"]):
            heads, cells = columns(rows, result)
            shown_rows = [(way(row), *one) for row, one in zip(rows, cells, strict=True)]
            lines += _table(tuple(map(_text, (title, *heads))), [tuple(map(_text, one)) for one in shown_rows])
    return "\n".join([*lines, *_foot(result)])


def _text(name: object) -> str:
    """Return a name as Markdown shows it as it is, in a table too."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(name))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose first column is text, with an empty line behind it."""
    dashes = ("---", *("---:" for _ in heads[1:]))
    return [*(f"| {' | '.join(cells)} |" for cells in (heads, dashes, *rows)), ""]


def _cell(cell: Seen | None) -> str:
    if cell is None:
        return "–"
    times = "" if cell.times is None else f"**{times_text(cell.times)}×** "
    return f"{times}{duration_text(cell.p50_us)}"


def _foot(result: Result) -> list[str]:
    """Return the targets, and closed what was looked at, noise, notes, machine, command."""
    targets = _table(("target", "outcome", "measured", "goal"), map(_target, result.get("targets", ())))
    environment = result["environment"]
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    notes = [*result["verdict"]["beside"], *floor, *result["notes"]]
    return [
        *(targets if result.get("targets") else ()),
        "<details><summary>How this was done</summary>",
        "",
        *(f"- {_text(note)}" for note in notes),
        f"- {_text(environment['cpu'])}, {environment['usable_cores']} cores, {environment['python']}; "
        f"{result['rounds']} rounds of fresh process pairs",
        f"- `{printable(result['command']).replace('`', chr(39))}`",
        "",
        "</details>",
        "",
    ]


def _target(one: Mapping[str, Any]) -> Sequence[str]:
    measured = "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}"
    return _text(one["name"]), one["word"], measured, f"{one['sense']} {one['goal']:g} {one['unit']}"


def _changes(result: Result) -> Iterator[str]:
    found = result.get("changes")
    if found is None:
        return
    yield from (_text(found["sentence"]), "")
    yield from (f"- {_text(one['sentence'])}" for one in found["rows"] if one["word"] != "NO DIFFERENCE")
    yield from (f"- the machines differ in {_text(one)}" for one in found["machine_differs"])
    yield ""
