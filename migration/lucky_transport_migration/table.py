"""A table, and what writes it: for the terminal, as Markdown and, with sentences and figures, as a page.

A page is one HTML file: no scripts, nothing loaded from anywhere. Equal input gives equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_transport.atomic_write import write_atomically
from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import ConfigError, printable

#: The word for a run from which nothing is concluded.
INCONCLUSIVE = "INCONCLUSIVE"
#: Verdicts -> their style, and the sign that tells them without colours.
_WORDS = {
    **dict.fromkeys(("PASS", "READY", "MAY MOVE", "COMPLETE", "FASTER", "MOSTLY FASTER", "EQUAL"), ("good", "✓")),
    **dict.fromkeys(("FAIL", "NOT READY", "HELD BACK", "SLOWER", "NOT FASTER", "DIFFERENT", "FAILED"), ("bad", "✗")),
    **dict.fromkeys(
        ("NOTHING SEEN", "MIXED", "NO VERDICT", "NO DIFFERENCE", "NOT MEASURED", INCONCLUSIVE), ("open", "○")
    ),
}


@dataclass(frozen=True, slots=True)
class Table:
    """A title that stands over the first column, the heads of the others, rows of text, and sentences below them.

    A cell "1.20× 3 µs" is a ratio, which is read first, and what it is of.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    sentences: Sequence[str] = ()


def show_tables(found: Iterable[Table]) -> None:
    """Print tables on stdout."""
    for one in found:
        show(one.title, ("", *one.heads), one.rows, numbers=True)
        for sentence in one.sentences:
            echo(sentence)


def escaped(name: object) -> str:
    """Return a name as Markdown shows it as it is, in a table too."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(name))


def bullets(texts: Iterable[object]) -> list[str]:
    """Return the lines of a list in Markdown, with an empty line behind it."""
    return [*(f"- {escaped(one)}" for one in texts), ""]


def tables(found: Iterable[Table]) -> list[str]:
    """Return the lines of tables in Markdown, with an empty line behind each."""
    lines: list[str] = []
    for one in found:
        heads, dashes = tuple(map(escaped, (one.title, *one.heads))), ("---", *("---:" for _ in one.heads))
        lines += [f"| {' | '.join(cells)} |" for cells in (heads, dashes, *(map(_cell, row) for row in one.rows))]
        lines += ["", *(line for sentence in one.sentences for line in (escaped(sentence), ""))]
    return lines


def _cell(cell: str) -> str:
    times, sign, duration = escaped(cell).partition("× ")
    return f"**{times}×** {duration}" if sign else times


def render(template: str, **values: Any) -> str:
    """Return the page that a template of `templates/` makes of these values; text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("lucky_transport_migration")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["words"] = _WORDS
    return made.get_template(template).render(values)


def write_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a report, by name; makes the directory. Raises ConfigError when it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_atomically(directory / file, text.encode())
    except OSError as error:
        raise ConfigError(
            f"report directory {str(directory)!r}: {error.strerror}", hint="pass a writable one with --report"
        ) from error
