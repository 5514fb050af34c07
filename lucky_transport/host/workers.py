"""Threads that run what may take long, at most so many at once.

Rule 1: a thread is started when all are busy and the limit allows, and kept for the next task.
Rule 2: threads are daemons: a handler that hangs keeps no process alive. `close` waits a moment for the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from lucky_transport.errors import Busy

__all__ = ["Workers"]

_log = logging.getLogger("lucky_transport")


class Workers:
    """At most `limit` threads; `waiting` tasks may wait for one (0: a task without a thread is refused)."""

    def __init__(self, name: str, limit: int, waiting: int = 0) -> None:
        self._name = name
        self._limit = limit
        self._waiting = waiting
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads: list[threading.Thread] = []
        self._closed = False

    def run(self, task: Callable[[], object]) -> None:
        """Run the task on a thread, soon. Raises Busy when too many run and wait already."""
        with self._lock:
            if self._closed:
                raise Busy("the engine is closing")
            if self._unfinished >= self._limit + self._waiting:
                raise Busy(
                    f"{self._limit} {self._name} run and {self._waiting} wait already", hint="wait for some of them"
                )
            self._unfinished += 1
            if self._unfinished > len(self._threads) and len(self._threads) < self._limit:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._tasks.put(task)

    def close(self, grace_s: float = 1.0) -> None:
        """Start nothing any more and wait up to `grace_s` for what runs; idempotent."""
        with self._lock:
            self._closed = True
            threads = tuple(self._threads)
        for _ in threads:
            self._tasks.put(None)
        end = time.monotonic() + grace_s
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(end - time.monotonic(), 0))

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:  # tasks answer their own errors; this one is a fault of ours and must not cost a thread
                _log.exception("a task of %s broke", self._name)
            finally:
                del task  # nothing of it is kept while the thread waits
                with self._lock:
                    self._unfinished -= 1
