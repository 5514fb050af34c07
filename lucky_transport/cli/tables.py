"""Tables on stdout: aligned columns, never cut to a width so that a script can read them, coloured on a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from lucky_transport.errors import printable

#: Fewer characters than this are no room to wrap in.
_NARROWEST = 20

#: Words that are a verdict where they stand alone in a cell, and their colour.
_COLOURS = {
    **dict.fromkeys(("ok", "yes", "PASS"), "green"),
    **dict.fromkeys(("warn", "stale"), "yellow"),
    **dict.fromkeys(("fail", "no", "FAIL"), "red"),
}


def echo(text: str = "", *, err: bool = False, **style: Any) -> None:
    """Print a line that may hold names of others."""
    click.secho(printable(text), err=err, **style)


def show(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    empty: str = "none",
    numbers: bool = False,
    wraps: bool = False,
) -> None:
    """Print one table; `empty` is printed where there are no rows. numbers: all columns but the first hold numbers.

    wraps: on a terminal the last column goes on in lines of its own.
    """
    click.echo(click.style(printable(title), bold=True))
    if not rows:
        click.echo(f"  {empty}\n")
        return
    texts = [[printable(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    if numbers:
        texts = [[row[0], *map(str.rjust, row[1:], widths[1:])] for row in texts]
    click.echo(_line(texts[0], widths, bold=True))
    left = sum(width + 2 for width in widths[:-1]) + 2
    room = shutil.get_terminal_size().columns - left if wraps and sys.stdout.isatty() else 0
    for row in texts[1:]:
        lines = textwrap.wrap(row[-1], room, break_on_hyphens=False) if room >= _NARROWEST else [row[-1]]
        click.echo(_line([*row[:-1], *lines[:1]], widths))
        for line in lines[1:]:
            click.echo(" " * left + line)
    click.echo()


def _line(cells: Sequence[str], widths: Sequence[int], *, bold: bool = False) -> str:
    """Return the cells, padded to the columns' widths; click removes the colours where stdout is no terminal."""
    last = max((i for i, cell in enumerate(cells) if cell), default=0)
    padded = [cell.ljust(width) for cell, width in zip(cells[:last], widths[:last], strict=True)]
    texts = [*padded, *cells[last : last + 1]]
    return "  " + "  ".join(click.style(text, fg=_COLOURS.get(text.strip()), bold=bold or None) for text in texts)
