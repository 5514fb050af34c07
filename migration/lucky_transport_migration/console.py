"""What a command shows to a person: sentences, tables, and progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lucky_transport.errors import printable

__all__ = ["new_table", "print_text", "text_of", "watched"]


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a sentence as it is."""
    console.print(printable(text), style=style, highlight=False, soft_wrap=True, markup=False)


def text_of(name: object, style: str = "") -> Text:
    """Return a name as it is: what a terminal or rich would obey in it is spelt out."""
    return Text(printable(name), style)


class _Table(Table):
    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*map(text_of, cells), **options)


def new_table(first: str, *others: str, title: str | None = None) -> Table:
    """Return a table with one column of text and then columns of numbers; its cells show names as they are."""
    table = _Table(title=title and text_of(title, "bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(text_of(first), no_wrap=True)
    for name in others:
        table.add_column(text_of(name), justify="right", no_wrap=True)
    return table


@contextmanager
def watched(what: str, total: int, *, silent: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function to call once per finished piece of `total`, perhaps with a text that says what comes next.

    Nothing is drawn when stderr is no terminal or with `silent`.
    """
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield lambda text="": None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str = "") -> None:
            bar.update(task, advance=1, description=printable(text or what))

        yield advance
