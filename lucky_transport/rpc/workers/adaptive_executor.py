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

from lucky_transport.lazy_dict import LazyDict
from lucky_transport.rpc.workers.guarded_reader import GuardedReader

_log = logging.getLogger("lucky_transport")
#: A run that took longer is not fast; one that took LONG_NS takes the method back to the pool at once. A run after
#: a rest may take as long as that: it finds the caches cold, as a thread of the pool would, and delays others rarely.
QUICK_NS, REST_NS = 100_000, 500_000
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
    ended_ns: when the last run did.

    After each time it is taken back, four times as many runs are required.
    """

    __slots__ = ("_debt", "_proof", "ended_ns", "to_prove")

    def __init__(self) -> None:
        self._proof = self.to_prove = _FIRST_PROOF
        self._debt = self.ended_ns = 0

    def note(self, took_ns: int, paused_ns: int = 0) -> None:
        """Note one run of so many nanoseconds, after a pause of so many."""
        if took_ns <= (QUICK_NS if paused_ns < REST_NS else REST_NS):
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
    """A pool that runs `threads` tasks at once. submit: gives it a task. in_use: handlers that run or wait.

    stats: by method.
    """

    def __init__(self, submit: Callable[[Task], object], threads: int) -> None:
        self.submit = submit
        self.threads = threads
        self.in_use = 0
        self._lock = threading.Lock()
        self.stats = LazyDict[str, RunTimeStats](lambda method: RunTimeStats())

    def take(self) -> bool:
        """Count a handler for which `run_taken` comes next; False when all threads are in use."""
        with self._lock:
            if self.in_use >= self.threads:
                return False
            self.in_use += 1
            return True

    def run(self, stats: RunTimeStats, task: Task, refuse: Refusal) -> None:
        """Run the task in the pool; `refuse` gets the error if the pool is closed."""
        with self._lock:
            self.in_use += 1
        try:
            self.submit(partial(self.run_taken, stats, task))
        except Exception as error:
            with self._lock:
                self.in_use -= 1
            refuse(error)

    def run_taken(self, stats: RunTimeStats, task: Task) -> None:
        """Run a task that was counted, on this thread, and note how long it took."""
        start = time.perf_counter_ns()
        try:
            task()
        except BaseException:  # tasks answer their own errors; this one is ours and must not end the thread
            _log.exception("the answering of a call broke")
        finally:
            now = time.perf_counter_ns()
            stats.note(now - start, start - stats.ended_ns)
            stats.ended_ns = now
            with self._lock:
                self.in_use -= 1


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
        stats = slots.stats[method]
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
                self._guarded(partial(self._slots.run_taken, stats, task))

    def _on_replaced(self, ended: threading.Event) -> None:
        """Keep one thread of the pool waiting while the slow handler runs, so that the limit holds; run the others."""
        try:
            self._slots.submit(ended.wait)
        except Exception as error:  # the pool is closed
            _log.debug("no thread of the pool waits for a slow handler: %s", error)
        while self._waiting:
            self._slots.run(*self._waiting.popleft())
