"""What a command shows to a person on a terminal: sentences and names as they are, and progress bars on stderr."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from lucky_transport.errors import printable

__all__ = ["print_text", "terminated_as_by_ctrl_c", "text_of", "watched"]


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a sentence as it is."""
    console.print(printable(text), style=style, highlight=False, soft_wrap=True, markup=False)


def text_of(name: object, style: str = "") -> Text:
    """Return a name as it is: what a terminal or rich would obey in it is spelt out."""
    return Text(printable(name), style)


@contextmanager
def watched(what: str, total: int | None, *, silent: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function to call once per finished piece, perhaps with a text that says what comes next.

    total: how many there are, None = not known. Nothing is drawn when stderr is no terminal or with `silent`.
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


@contextmanager
def terminated_as_by_ctrl_c() -> Generator[None]:
    """SIGTERM raises KeyboardInterrupt, so that what was begun is ended in order. For the main thread only."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
