"""Work on many files, in this process or spread over several, with the results in the order of the files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar

from lucky_transport.errors import TransportError

__all__ = ["map_files", "usable_cores"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_MOST = 16
#: Files that go to a process at once: one at a time would take longer to hand over than to read.
_BATCH = 8
_AHEAD = 4  # batches for each process, so that none waits while another is at a long file


def usable_cores() -> int:
    """Return how many processes can work at once here, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a worker raised, in words: not every exception survives the way between processes."""

    name: str
    what: str


def map_files(
    work: Callable[[str, Task], Result], files: Sequence[tuple[str, Task]], processes: int = 1
) -> Iterator[Result]:
    """Yield `work(name, task)` of each of `files`, in their order.

    processes: how many work at it; 1 stands for this one. They are spawned, so `work` and what goes to it and comes
    back has to be picklable, and they end with this process, however that ends. Raises TransportError, which names the
    file, where `work` raises.
    """
    batches = [list(files[start : start + _BATCH]) for start in range(0, len(files), _BATCH)]
    if min(processes, len(batches)) <= 1:
        for batch in batches:
            yield from _checked(_run(work, batch))
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(batches)), mp_context=context, initializer=_start_worker)
    try:
        yield from _in_order(pool, work, batches, ahead=processes * _AHEAD)
    except BrokenProcessPool as error:
        raise TransportError("a process that reads files was ended from outside", hint="scan again") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor,
    work: Callable[[str, Task], Result],
    batches: list[list[tuple[str, Task]]],
    *,
    ahead: int,
) -> Iterator[Result]:
    under_way = deque[Future[list[Result | _Failed]]]()
    for batch in batches:
        under_way.append(pool.submit(_run, work, batch))
        if len(under_way) >= ahead:
            yield from _checked(under_way.popleft().result())
    while under_way:
        yield from _checked(under_way.popleft().result())


def _run(work: Callable[[str, Any], Result], batch: list[tuple[str, Any]]) -> list[Result | _Failed]:
    done: list[Result | _Failed] = []
    for name, task in batch:
        try:
            done.append(work(name, task))
        except Exception as error:  # whatever it is, the file that causes it has to be known
            done.append(_Failed(name, f"{type(error).__name__}: {error}"))
    return done


def _checked(results: list[Result | _Failed]) -> Iterator[Result]:
    for one in results:
        if isinstance(one, _Failed):
            raise TransportError(f"{one.name} cannot be scanned: {one.what}", hint="report it, with that file")
        yield one


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the others
    Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended: the queues of a pool would keep it for good."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
