"""The progress bar of a training, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["watched"]


@contextmanager
def watched(what: str, total: int, *, silent: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function to call once per finished piece of `total`, with a text that says how it stands.

    Nothing is drawn when stderr is no terminal or with `silent`.
    """
    if silent or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
