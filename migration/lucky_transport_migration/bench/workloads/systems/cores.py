"""Two processes on a core each, so that a ping-pong of either kind has the same to wait for.

On one core the kernel hands a ping-pong over several times faster than across two, and which it is changes from run to
run; a program that works while its peer does has a core of its own.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["two_cores"]


@contextmanager
def two_cores(pid: int) -> Generator[None]:
    """Keep this process on one core and `pid` on another while the context lasts; no effect where there is one core."""
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        yield
        return
    ours, theirs, *_ = sorted(usable)
    _move(os.getpid(), {ours})
    _move(pid, {theirs})
    try:
        yield
    finally:
        _move(os.getpid(), usable)
        _move(pid, usable)


def _move(pid: int, cores: set[int]) -> None:
    """Have every thread of a process run on `cores`; those that it starts later do too."""
    with suppress(OSError):  # the process has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it ended meanwhile
                os.sched_setaffinity(int(thread.name), cores)
