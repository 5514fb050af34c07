"""A signal handler that raises while a thread is started, once that thread runs."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["interrupted_start"]


@contextlib.contextmanager
def interrupted_start(error: type[BaseException], after: int = 0) -> Iterator[None]:
    """Raise in the start of a thread, when `after` others have been started. All of them run by then."""
    starting: Any = threading.Thread.start.__globals__
    name = next(one for one in ("_start_joinable_thread", "_start_new_thread") if one in starting)
    start, left = starting[name], itertools.count(after, -1)

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        made = start(*arguments, **settings)
        if next(left) == 0:
            for thread in threading.enumerate():
                thread._started.wait()  # type: ignore[attr-defined]
            raise error
        return made

    starting[name] = interrupted
    try:
        yield
    finally:
        starting[name] = start
