"""The thread that reads what callers send, and a watchdog that replaces it while a handler it runs turns out slow.

reading = GuardedReader("commands", body)   # body(): wait for callers and handle what they send, until it is over
reading.guarded(task)                       # within body(): run a handler on this thread
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from lucky_transport import native
from lucky_transport.fork import on_child
from lucky_transport.uninterrupted import start_thread

TIMEOUT_NS = 2_000_000
#: A watchdog that sleeps for longer ends.
_IDLE_NS = 1_000_000_000


class ReaderReplaced(Exception):
    """Another thread reads; this one has to leave `body`."""


class GuardedReader:
    """Exactly one thread at a time runs `body`, which may begin anew at any time on another thread.

    A guarded task that has not ended after one to two TIMEOUT_NS loses the reading to the watchdog, whose thread then
    runs `body`; the slow task's thread ends with it. The watchdog looks every TIMEOUT_NS while tasks run, sleeps
    otherwise, and ends when no task comes for long. Its timer wakes it: a task that finds it asleep starts the timer,
    so that no other thread runs before the task's answer has left.

    readers: threads that have read so far, 0 before `start`.
    on_replaced(ended): called on the new thread before it reads; `ended` is set when the slow task has ended.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.on_replaced: Callable[[threading.Event], None] = lambda ended: None
        self._name = name
        self._body = body
        self._lock = threading.Lock()
        self.readers = 0
        self._tasks = 0  # guarded so far
        self._busy = False
        self._ended = threading.Event()
        self._closing = False
        self._watchdog_sleeps = True
        self._timer = -1  # of the watchdog, if there is one
        self._threads: list[threading.Thread] = []
        on_child(self._drop_timer)

    def start(self) -> None:
        """Start the first reader thread; once."""
        self.readers = 1
        self._spawn(self._read)

    def close(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` until no thread reads; the caller makes `body` end. Idempotent."""
        self._dismiss_watchdog()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(timeout_s)

    def guarded(self, task: Callable[[], object]) -> None:
        """Run the task on this thread. Raises ReaderReplaced when another thread reads by the time it has ended."""
        reader = self.readers
        self._tasks += 1
        self._busy = True
        if self._watchdog_sleeps:  # checked last: a watchdog that falls asleep checks `_busy` last
            self._rouse_watchdog()
        try:
            task()
        finally:
            with self._lock:
                is_replaced = self.readers != reader
                if not is_replaced:
                    self._busy = False
        if is_replaced:
            raise ReaderReplaced

    def _rouse_watchdog(self) -> None:
        with self._lock:
            self._watchdog_sleeps = False
            if self._timer >= 0:
                native.start_timer(self._timer, TIMEOUT_NS)
            elif not self._closing:
                try:
                    self._timer = native.start_timer(-1, TIMEOUT_NS)
                    self._spawn(self._watch)
                except (OSError, RuntimeError):  # no descriptor or no thread can be had now: the next task tries again
                    self._watchdog_sleeps = True
                    self._drop_timer()

    def _dismiss_watchdog(self) -> None:
        with self._lock:
            self._closing = True
            if self._timer >= 0:
                native.start_timer(self._timer, 1)

    def _drop_timer(self) -> None:
        timer, self._timer = self._timer, -1
        if timer >= 0:
            os.close(timer)

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
        timer, seen, ended = self._timer, 0, None  # seen: tasks that were begun at the last look
        while True:
            os.read(timer, 8)
            with self._lock:
                if self._busy and self._tasks == seen and not self._closing:
                    ended = self._take_over()
                if self._watchdog_sleeps or self._closing:
                    self._drop_timer()
                    break
                seen = self._tasks
                self._watchdog_sleeps = True
                self._watchdog_sleeps = not self._busy  # a task that begins now sees one or the other
                native.start_timer(timer, _IDLE_NS if self._watchdog_sleeps else TIMEOUT_NS)
        if ended is not None:
            self.on_replaced(ended)
            self._read()

    def _take_over(self) -> threading.Event:
        """Make this thread the reader; the lock is held."""
        ended, self._ended = self._ended, threading.Event()
        self.readers += 1
        self._busy = False
        self._watchdog_sleeps = True
        return ended
