"""What a command shows to a person on a terminal: sentences and names as they are, and progress bars on stderr."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from lucky_transport.errors import printable

#: A file gets its first line of progress after so many seconds.
_FIRST_S = 2.0


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a sentence as it is."""
    console.print(printable(text), style=style, highlight=False, soft_wrap=True, markup=False)


def text_of(name: object, style: str = "") -> Text:
    """Return a name as it is: what a terminal or rich would obey in it is spelt out."""
    return Text(printable(name), style)


@contextmanager
def watched(what: str, total: int | None, *, silent: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function to call once per finished piece, perhaps with a text that says what comes next.

    total: how many there are, None = not known. Nothing is shown with `silent`. Where stderr is no terminal a line is
    printed after two seconds, and then after twice the time each.
    """
    console = Console(stderr=True)
    if silent:
        yield lambda text="": None
        return
    if not console.is_terminal:
        with _logged(what, total) as advance:
            yield advance
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
def _logged(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    done, doing, is_over, began_s = 0, what, threading.Event(), time.monotonic()

    def advance(text: str = "") -> None:
        nonlocal done, doing
        done, doing = done + 1, text or what

    def log() -> None:
        wait_s = _FIRST_S
        while not is_over.wait(wait_s):
            of = "" if total is None else f" of {total:,}"
            took_s = time.monotonic() - began_s
            print(f"{printable(doing)}: {done:,}{of} done in {took_s:.0f} s", file=sys.stderr, flush=True)
            wait_s *= 2

    logger = threading.Thread(target=log, name="progress", daemon=True)
    logger.start()
    try:
        yield advance
    finally:
        is_over.set()
        logger.join()


@contextmanager
def terminated_as_by_ctrl_c() -> Generator[None]:
    """SIGTERM raises KeyboardInterrupt, so that what was begun is ended in order. For the main thread only."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
