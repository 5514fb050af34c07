"""What every suite's Markdown has: verdict, targets, changes, notes; made to be pasted into a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lucky_transport_migration.units import times_text

__all__ = ["foot", "head", "table"]

Result = Mapping[str, Any]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose first column is text, with an empty line behind it."""
    columns = ("---", *("---:" for _ in heads[1:]))
    return [*(f"| {' | '.join(cells)} |" for cells in (heads, columns, *rows)), ""]


def head(result: Result, title: str) -> list[str]:
    """Return the lines before a suite's own tables: title, verdict, changes."""
    verdict = result["verdict"]
    return [f"## {title}", "", f"**{verdict['word']}** {verdict['sentence']}", "", *_changes(result)]


def foot(result: Result) -> list[str]:
    """Return the lines behind them: targets, and closed what was looked at, noise, notes, machine, command."""
    targets = table(("target", "outcome", "measured", "goal"), map(_target, result.get("targets", ())))
    environment = result["environment"]
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    notes = [*result["verdict"]["beside"], *floor, *result["notes"]]
    return [
        *(targets if result.get("targets") else ()),
        "<details><summary>How this was done</summary>",
        "",
        *(f"- {note}" for note in notes),
        f"- {environment['cpu']}, {environment['usable_cores']} cores, {environment['python']}; {result['rounds']} "
        "rounds of fresh process pairs",
        f"- `{result['command']}`",
        "",
        "</details>",
        "",
    ]


def _target(one: Mapping[str, Any]) -> Sequence[str]:
    measured = "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}"
    return one["name"], one["word"], measured, f"{one['sense']} {one['goal']:g} {one['unit']}"


def _changes(result: Result) -> Iterator[str]:
    found = result.get("changes")
    if found is None:
        return
    yield from (found["sentence"], "")
    yield from (f"- {one['sentence']}" for one in found["rows"] if one["word"] != "NO DIFFERENCE")
    yield from (f"- the machines differ in {one}" for one in found["machine_differs"])
    yield ""
