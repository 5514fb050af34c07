"""Where the handler of a unary call runs: in a pool, or, where its method has proved quick, on the thread that reads.

To hand a call to another thread costs more than most handlers take. Nothing else may change by leaving that out:

Rule 1: never do more handlers run at once than the pool has threads; with one thread they run in the order of their
        calls.
Rule 2: a handler that is not quick after all holds up nobody: another thread reads on (`calls.reading`), a thread of
        the pool stands still for as long, and the method goes back to the pool.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from lucky_transport.rpc.reading import Reading
from lucky_transport.rpc.slots import Pace, Refusal, Slots, Task

__all__ = ["Lane"]

_log = logging.getLogger("lucky_transport")


class Lane:
    """Runs the handlers of the calls that one thread, `reading`, reads."""

    def __init__(self, slots: Slots, reading: Reading) -> None:
        self._slots = slots
        self._guarded = reading.guarded
        self._waiting: deque[tuple[Pace, Task, Refusal]] = deque()
        reading.on_overtaken = self._on_overtaken

    def run(self, method: str, task: Task, refuse: Refusal) -> None:
        """Have the task run, soon: some of them only in `flush`. `refuse` is told why, if the pool does not take it."""
        slots = self._slots
        pace = slots.pace(method)
        is_quick = not pace.to_prove and slots.in_use < slots.threads
        # Behind its elders, be it quick or not, where the pool has no second thread for it.
        if is_quick or (self._waiting and slots.in_use + 1 >= slots.threads):
            self._waiting.append((pace, task, refuse))
        else:
            slots.run(pace, task, refuse)

    def flush(self) -> None:
        """Run what waits, on this thread, which reads. Raises Overtaken when another thread reads by now."""
        waiting = self._waiting
        while waiting:
            pace, task, refuse = waiting.popleft()
            if pace.to_prove or not self._slots.take():
                self._slots.run(pace, task, refuse)
            else:
                self._guarded(lambda pace=pace, task=task: self._run_here(pace, task))

    def _run_here(self, pace: Pace, task: Task) -> None:
        try:
            pace.timed(task)
        except Exception:  # tasks answer their own errors; this one is a fault of ours and must not end the reading
            _log.exception("the answering of a call broke")
        finally:
            self._slots.leave()

    def _on_overtaken(self, ended: threading.Event) -> None:
        """Have a thread of the pool stand still in the place of the one that was overtaken, and let the others run."""
        try:
            self._slots.submit(ended.wait)
        except Exception as error:  # the pool is closed: there is nobody to stand still for
            _log.debug("no thread stands still for a slow handler: %s", error)
        while self._waiting:
            self._slots.run(*self._waiting.popleft())
