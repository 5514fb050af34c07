"""A bounded pool of daemon threads for work that may take long: handlers, streams, the building of worlds.

`concurrent.futures.ThreadPoolExecutor` is joined when the interpreter exits, so one handler that hangs would keep the
engine's process alive; the threads of this pool are daemons. A forked child has threads of its own, and none of the
parent's tasks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy
from lucky_transport.fork import on_child
from lucky_transport.limits import limit_reached
from lucky_transport.uninterrupted import WaitQueue, start_thread

_log = logging.getLogger("lucky_transport")


class WorkerPool:
    """At most `limit` threads, each started when all others are busy; up to `waiting` tasks wait for one."""

    def __init__(self, name: str, limit: int, waiting: int = 0) -> None:
        self._name = name
        self._limit = limit
        self._waiting = waiting
        self._closed = False
        self._begin()
        on_child(self._begin)

    def _begin(self) -> None:
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.RLock()  # reentrant: a finalizer may bring a task in the middle of anything
        self._unfinished = 0
        self._finished = WaitQueue()
        self._threads: dict[threading.Thread, None] = {}

    def run(self, task: Callable[[], object]) -> None:
        """Run the task on a thread of the pool.

        Raises Busy when `limit` tasks run and `waiting` wait already, and where no thread can be started
        and no more may wait for those that run.
        """
        with self._lock:
            if self._closed:
                raise Busy("the engine is closing")
            if self._unfinished >= self._limit + self._waiting:
                raise Busy(
                    f"{self._limit} {self._name} run and {self._waiting} wait already", hint="wait for some of them"
                )
            if self._unfinished >= len(self._threads) and len(self._threads) < self._limit:
                self._start_thread()
            self._unfinished += 1
            self._tasks.put(task)  # no signal handler runs between these two

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            start_thread(thread)
        except RuntimeError as error:
            if not self._threads or self._unfinished >= len(self._threads) + self._waiting:
                reached, remedy = limit_reached(error)
                raise Busy(f"{self._name}: {reached or error}", hint=remedy) from error
        else:
            self._threads[thread] = None

    def drain(self, deadline: Deadline) -> bool:
        """Wait until all tasks are done; False when some are not at the deadline."""
        return self._finished.wait_for(lambda: not self._unfinished, deadline.remaining_s)

    def close(self, grace_s: float = 1.0) -> None:
        """Refuse further tasks and wait up to `grace_s` for those that run; idempotent."""
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
        self._threads[threading.current_thread()] = None  # where a signal handler raised in whoever started it
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException:  # tasks handle their own errors; a bug in one must not cost a thread
                _log.exception("a task of %s broke", self._name)
            finally:
                del task  # nothing of it is kept while the thread waits
                with self._lock:
                    self._unfinished -= 1
                if not self._unfinished:
                    self._finished.wake_all()
