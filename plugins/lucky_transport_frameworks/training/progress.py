"""The progress bar of a training, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["watched"]


@contextmanager
def watched(what: str, total: int, *, silent: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function to call once per finished piece of `total`, with a text that says how it stands.

    Nothing is drawn when stderr is no terminal or with `silent`.
    """
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield lambda text: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
