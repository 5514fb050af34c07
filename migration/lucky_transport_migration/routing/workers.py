"""A few threads that do what no caller may wait for.

There is room for so many jobs, under way and waiting; one more is refused at once, nothing waits for room. The threads
hold nothing up: they start with the first jobs, and end with the process whatever they do. A forked child has threads
of its own, and none of the parent's jobs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from lucky_transport.deadline import Deadline
from lucky_transport.fork import on_child

__all__ = ["Workers"]

_log = logging.getLogger("lucky_transport")


class Workers:
    """At most `threads` threads called `name`, with room for `room` jobs. What a job raises is logged."""

    def __init__(self, name: str, threads: int, room: int) -> None:
        self._name = name
        self._most_threads = threads
        self._room = room
        self._begin()
        on_child(self._begin)

    def submit(self, job: Callable[[], None]) -> bool:
        """Have the job done as soon as possible; False when there is no room, and after `close`."""
        with self._news:
            if self._is_closed or self._open_jobs >= self._room:
                return False
            if self._open_jobs >= self._threads and self._threads < self._most_threads and not self._start():
                return False
            self._open_jobs += 1
            self._waiting.append(job)
            self._news.notify()
        return True

    def drain(self, deadline: Deadline) -> bool:
        """Wait until all jobs are done; False when some are not at the deadline."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open_jobs, deadline.remaining_s)

    def close(self) -> None:
        """Take no more jobs, and let the threads end after those that there are. Idempotent."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()

    def _begin(self) -> None:
        lock = threading.Lock()
        self._news, self._idle = threading.Condition(lock), threading.Condition(lock)
        self._waiting: deque[Callable[[], None]] = deque()
        self._open_jobs = self._threads = 0
        self._is_closed = False

    def _start(self) -> bool:
        """Start one more thread; False when the system has none, and no other is there."""
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            return self._threads > 0
        self._threads += 1
        return True

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:  # jobs answer their own errors; this one is a fault of ours and must not cost the thread
                _log.exception("a job of %r broke", self._name)
            del job  # what it holds is not kept until the next one comes
            with self._idle:
                self._open_jobs -= 1
                if not self._open_jobs:
                    self._idle.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closed)
            return self._waiting.popleft() if self._waiting else None
