"""Tables on stdout: drawn by rich where a person looks, plain aligned columns in a pipe or a file.

Rule 1: plain output is never cut to a width, so that a script can read it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

__all__ = ["show"]


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = "none") -> None:
    """Print one table; `empty` is what stands there when there are no rows."""
    texts = [[str(cell) for cell in row] for row in rows]
    if not texts:
        click.echo(f"{title}\n  {empty}\n")
    elif sys.stdout.isatty():
        _show_drawn(title, columns, texts)
    else:
        _show_plain(title, columns, texts)


def _show_plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    click.echo(title)
    for row in (columns, *rows):
        click.echo("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    click.echo()


def _show_drawn(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))  # Text: a value is never markup
    Console(highlight=False).print(table)


#: Words that are a verdict wherever they stand alone in a cell.
_STYLES = {"ok": "green", "yes": "green", "warn": "yellow", "stale": "yellow", "fail": "bold red", "no": "red"}
