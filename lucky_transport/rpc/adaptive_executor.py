"""Where the handler of a unary call runs: on the thread that reads while its method is fast, in the pool otherwise.

A change of threads costs more than most handlers take.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from lucky_transport.rpc.guarded_reader import GuardedReader
from lucky_transport.rpc.run_time_stats import CountedPool, Refusal, RunTimeStats, Task

__all__ = ["AdaptiveExecutor"]

_log = logging.getLogger("lucky_transport")


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
                self._guarded(lambda stats=stats, task=task: self._run_here(stats, task))

    def _run_here(self, stats: RunTimeStats, task: Task) -> None:
        try:
            stats.timed(task)
        except Exception:  # tasks answer their own errors; this one is ours and must not end the reading
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
