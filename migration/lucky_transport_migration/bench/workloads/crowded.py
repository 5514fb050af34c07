"""A machine that a pair has not for itself: co-runners, programs that compute all the time, and one CPU for all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lucky_transport_migration.bench.cpu import engine_cpu_ns
from lucky_transport_migration.bench.processes import ServerProcess

__all__ = ["LOST", "co_runners", "on_one_core"]

#: What a note says of the column `loss_percent` of rows beside co-runners.
LOST = "lost, beside co-runners: how much less CPU time they get than while the pair rests"

#: Computes until its stdin ends, with the process that started it at the latest.
_PROGRAM = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print("ready", flush=True)
while True:
    pass
"""


@contextmanager
def co_runners(count: int, look_s: float) -> Generator[Callable[[], dict[str, float]]]:
    """Start `count` co-runners, see for `look_s` what they get alone, and end them with the block.

    Yields a function that says how much less CPU time, in per cent, they got since: the column `loss_percent`.
    """
    with ExitStack() as stack:
        command = [sys.executable, "-S", "-c", _PROGRAM]
        pids = [stack.enter_context(ServerProcess("that computes", command)).pid for _ in range(count)]

        def used() -> tuple[float, float]:
            return time.perf_counter_ns(), sum(engine_cpu_ns(pid) or 0 for pid in pids)

        before = used()
        time.sleep(look_s)
        start = used()
        alone = (start[1] - before[1]) / (start[0] - before[0])

        def lost() -> dict[str, float]:
            now = used()
            beside = (now[1] - start[1]) / (now[0] - start[0])
            return {"loss_percent": round((1 - beside / alone) * 100, 1) if alone else 0.0}

        yield lost


@contextmanager
def on_one_core() -> Generator[None]:
    """Keep each thread of this process, and each process that it starts in the block, on one CPU."""
    usable = os.sched_getaffinity(0)
    _pin({max(usable)})
    try:
        yield
    finally:
        _pin(usable)


def _pin(cores: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread ended between the listing and the call
            os.sched_setaffinity(int(task.name), cores)
