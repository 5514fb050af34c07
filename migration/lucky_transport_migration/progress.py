"""Progress bars on stderr, for people only.

Nothing is drawn when stderr is no terminal or a script asked for JSON; results never share a stream with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["watched"]


@contextmanager
def watched(what: str, total: int, *, silent: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function to call once per finished piece of `total`, perhaps with a text that says what comes next."""
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield lambda text="": None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str = "") -> None:
            bar.update(task, advance=1, description=text or what)

        yield advance
