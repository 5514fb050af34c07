"""Work on many files, in this process or spread over several, with the results in the order of the files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from threading import Thread
from typing import TypeVar

from lucky_transport.errors import TransportError

Task = TypeVar("Task")
Result = TypeVar("Result")

_MOST = 16
#: Files that go to a process at once: one at a time would take longer to hand over than to read.
_BATCH = 8


def usable_cores() -> int:
    """Return how many processes can work at once here, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)


def map_files(
    work: Callable[[str, Task], Result], files: Sequence[tuple[str, Task]], processes: int = 1
) -> Iterator[Result]:
    """Yield `work(name, task)` of each of `files`, in their order.

    processes: how many work at it; 1 stands for this one. They are spawned, so `work` and what goes to it and comes
    back has to be picklable, and they end with this process, however that ends. Raises TransportError, which names the
    file, where `work` raises.
    """
    named, processes = partial(_named, work), min(processes, -(-len(files) // _BATCH))
    if processes <= 1:
        yield from map(named, files)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_start_worker)
    try:
        yield from pool.map(named, files, chunksize=_BATCH)
    except BrokenProcessPool as error:
        raise TransportError("a process that reads files was ended from outside", hint="scan again") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _named(work: Callable[[str, Task], Result], file: tuple[str, Task]) -> Result:
    """Return `work(*file)`; what it raises becomes words: not every exception survives the way between processes."""
    name, task = file
    try:
        return work(name, task)
    except Exception as error:
        text = f"{name} cannot be scanned: {type(error).__name__}: {error}"
        raise TransportError(text, hint="report it, with that file") from None


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the others
    Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended: the queues of a pool would keep it for good."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
