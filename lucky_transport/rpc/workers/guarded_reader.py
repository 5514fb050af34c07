"""The thread that reads what callers send, and a watchdog that replaces it while a handler it runs turns out slow.

reading = GuardedReader("commands", body)   # body(): wait for callers and handle what they send, until it is over
reading.guarded(task)                       # within body(): run a handler on this thread
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.uninterrupted import start_thread

TIMEOUT_S = 0.002
#: A watchdog that sleeps for longer ends.
_IDLE_S = 1.0


class ReaderReplaced(Exception):
    """Another thread reads; this one has to leave `body`."""


class GuardedReader:
    """Exactly one thread at a time runs `body`, which may begin anew at any time on another thread.

    A guarded task that has not ended after one to two TIMEOUT_S loses the reading to the watchdog, whose thread then
    runs `body`; the slow task's thread ends with it. The watchdog looks every TIMEOUT_S while tasks run, sleeps
    otherwise, and ends when no task comes for long.

    on_replaced(ended): called on the new thread before it reads; `ended` is set when the slow task has ended.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.on_replaced: Callable[[threading.Event], None] = lambda ended: None
        self._name = name
        self._body = body
        self._lock = threading.Lock()
        self._readers = 0
        self._tasks = 0  # guarded so far
        self._busy = False
        self._ended = threading.Event()
        self._has_watchdog = self._closing = False
        self._watchdog_sleeps = True
        self._wake_up = threading.Lock()  # held; released once to end the watchdog's sleep
        self._wake_up.acquire()
        self._threads: list[threading.Thread] = []

    @property
    def has_started(self) -> bool:
        """True from `start` on."""
        return self._readers > 0

    def start(self) -> None:
        """Start the first reader thread; once."""
        self._readers = 1
        self._spawn(self._read)

    def close(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` until no thread reads; the caller makes `body` end. Idempotent."""
        self._dismiss_watchdog()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(timeout_s)

    def guarded(self, task: Callable[[], object]) -> None:
        """Run the task on this thread. Raises ReaderReplaced when another thread reads by the time it has ended."""
        reader = self._readers
        self._tasks += 1
        self._busy = True
        if self._watchdog_sleeps:  # checked last: a watchdog that falls asleep checks `_busy` last
            self._rouse_watchdog()
        try:
            task()
        finally:
            with self._lock:
                is_replaced = self._readers != reader
                if not is_replaced:
                    self._busy = False
        if is_replaced:
            raise ReaderReplaced

    def _rouse_watchdog(self) -> None:
        with self._lock:
            self._watchdog_sleeps = False
            if self._has_watchdog:
                self._end_sleep()
            elif not self._closing:
                try:
                    self._spawn(self._watch)
                    self._has_watchdog = True
                except RuntimeError:  # no thread can be started now: the next task tries again
                    self._watchdog_sleeps = True

    def _dismiss_watchdog(self) -> None:
        with self._lock:
            self._closing = True
            self._end_sleep()

    def _end_sleep(self) -> None:
        """Wake the watchdog, now or in its next sleep; the lock is held."""
        if self._wake_up.locked():
            self._wake_up.release()

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=self._name, daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        start_thread(thread)

    def _read(self) -> None:
        ended = self._ended
        try:
            self._body()
        except ReaderReplaced:
            pass
        except BaseException:
            self._dismiss_watchdog()
            raise
        else:
            self._dismiss_watchdog()
        finally:
            ended.set()

    def _watch(self) -> None:
        """Sleep until a task takes too long, then read in place of its thread; end when none comes for long."""
        seen = 0  # tasks that were begun at the last look
        is_awake = True
        while not self._closing:
            with self._lock:
                if self._busy and self._tasks == seen:
                    ended = self._take_over()
                    break
                if not is_awake and self._watchdog_sleeps:
                    self._has_watchdog = False
                    return
                self._watchdog_sleeps = True
                if self._busy or self._tasks != seen:
                    self._watchdog_sleeps = False
                seen = self._tasks
            is_awake = self._wake_up.acquire(timeout=_IDLE_S if self._watchdog_sleeps else TIMEOUT_S)
        else:
            return
        self.on_replaced(ended)
        self._read()

    def _take_over(self) -> threading.Event:
        """Make this thread the reader; the lock is held."""
        ended, self._ended = self._ended, threading.Event()
        self._readers += 1
        self._busy = self._has_watchdog = False
        self._watchdog_sleeps = True
        return ended
