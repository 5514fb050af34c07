"""Where the handler of a unary call runs: on the thread that reads while its method is fast, in the pool otherwise.

A change of threads costs more than most handlers take.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from lucky_transport.rpc.workers.guarded_reader import GuardedReader

_log = logging.getLogger("lucky_transport")
#: A run that took longer is not fast; one that took LONG_NS takes the method back to the pool at once.
QUICK_NS = 100_000
LONG_NS = 1_000_000
_FIRST_PROOF = 8
_LONGEST_PROOF = 1024
#: What a slow run adds to the debt, and the debt that takes a method back to the pool; a fast run pays back 1. So a
#: method stays trusted while one run in nine is slow: the machine may have been busy.
_SLOW = 8
_LIMIT = 64

#: Runs a handler and answers its errors.
Task = Callable[[], object]
#: Answers a call whose task the pool did not take.
Refusal = Callable[[Exception], object]


class RunTimeStats:
    """How fast one method runs. to_prove: fast runs that are still required; 0: its calls run on the reader thread.

    After each time it is taken back, four times as many runs are required.
    """

    __slots__ = ("_debt", "_proof", "to_prove")

    def __init__(self) -> None:
        self._proof = self.to_prove = _FIRST_PROOF
        self._debt = 0

    def timed(self, task: Task) -> None:
        """Run the task and note how long it took."""
        start = time.perf_counter_ns()
        try:
            task()
        finally:
            self.note(time.perf_counter_ns() - start)

    def note(self, took_ns: int) -> None:
        """Note one run of so many nanoseconds."""
        if took_ns <= QUICK_NS:
            if self.to_prove:
                self.to_prove -= 1
            elif self._debt:
                self._debt -= 1
        elif self.to_prove:
            self.to_prove = min(self.to_prove + _SLOW, self._proof)
        else:
            self._debt += _SLOW if took_ns < LONG_NS else _LIMIT
            if self._debt >= _LIMIT:
                self._debt = 0
                self.to_prove = self._proof = min(4 * self._proof, _LONGEST_PROOF)


class CountedPool:
    """A pool that runs `threads` tasks at once. submit: gives it a task. in_use: handlers that run or wait."""

    def __init__(self, submit: Callable[[Task], object], threads: int) -> None:
        self.submit = submit
        self.threads = threads
        self.in_use = 0
        self._lock = threading.Lock()
        self._stats: dict[str, RunTimeStats] = {}

    def stats(self, method: str) -> RunTimeStats:
        """Return the statistics of the method."""
        stats = self._stats.get(method)
        return self._stats.setdefault(method, RunTimeStats()) if stats is None else stats

    def take(self) -> bool:
        """Count a handler that runs on another thread, until `leave`; False when all threads are in use."""
        with self._lock:
            if self.in_use >= self.threads:
                return False
            self.in_use += 1
            return True

    def leave(self) -> None:
        """End what `take` began."""
        with self._lock:
            self.in_use -= 1

    def run(self, stats: RunTimeStats, task: Task, refuse: Refusal) -> None:
        """Run the task in the pool; `refuse` gets the error if the pool is closed."""
        with self._lock:
            self.in_use += 1
        try:
            self.submit(partial(self._run, stats, task))
        except Exception as error:
            self.leave()
            refuse(error)

    def _run(self, stats: RunTimeStats, task: Task) -> None:
        try:
            stats.timed(task)
        finally:
            self.leave()


class AdaptiveExecutor:
    """Runs the handlers of the calls that one thread, `reading`, reads.

    Never do more handlers run at once than the pool has threads; with one thread they run in the order of their calls.
    A handler that turns out slow delays nothing: another thread reads on, one thread of the pool waits for as long,
    and the method goes back to the pool.
    """

    def __init__(self, slots: CountedPool, reading: GuardedReader) -> None:
        self._slots = slots
        self._guarded = reading.guarded
        self._waiting: deque[tuple[RunTimeStats, Task, Refusal]] = deque()
        reading.on_replaced = self._on_replaced

    def run(self, method: str, task: Task, refuse: Refusal) -> None:
        """Run the task in the pool now or on this thread in `flush`; `refuse` gets the error if the pool is closed."""
        slots = self._slots
        stats = slots.stats(method)
        is_quick = not stats.to_prove and slots.in_use < slots.threads
        # Behind earlier calls, fast or not, where the pool has no second thread for it.
        if is_quick or (self._waiting and slots.in_use + 1 >= slots.threads):
            self._waiting.append((stats, task, refuse))
        else:
            slots.run(stats, task, refuse)

    def flush(self) -> None:
        """Run what waits on this thread, which reads. Raises ReaderReplaced when another thread reads by now."""
        waiting = self._waiting
        while waiting:
            stats, task, refuse = waiting.popleft()
            if stats.to_prove or not self._slots.take():
                self._slots.run(stats, task, refuse)
            else:
                self._guarded(partial(self._run_here, stats, task))

    def _run_here(self, stats: RunTimeStats, task: Task) -> None:
        try:
            stats.timed(task)
        except BaseException:  # tasks answer their own errors; this one is ours and must not end the reading
            _log.exception("the answering of a call broke")
        finally:
            self._slots.leave()

    def _on_replaced(self, ended: threading.Event) -> None:
        """Keep one thread of the pool waiting while the slow handler runs, so that the limit holds; run the others."""
        try:
            self._slots.submit(ended.wait)
        except Exception as error:  # the pool is closed
            _log.debug("no thread of the pool waits for a slow handler: %s", error)
        while self._waiting:
            self._slots.run(*self._waiting.popleft())
