"""The thread that reads what callers send, and a watchdog that replaces it while a handler it runs turns out slow.

    reading = GuardedReader("commands", body)   # body(): wait for callers and handle what they send, until it is over
    reading.guarded(task)                       # within body(): run a handler on this thread

Exactly one thread reads at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.rpc.timerfd import TimerFd

__all__ = ["TIMEOUT_NS", "GuardedReader", "ReaderReplaced"]

TIMEOUT_NS = 2_000_000


class ReaderReplaced(Exception):
    """Another thread reads; this one has to leave `body`."""


class GuardedReader:
    """One thread at a time runs `body`, which may begin anew at any time on another thread.

    A guarded task that has not ended after one to two TIMEOUT_NS loses the reading to the watchdog, whose thread then
    runs `body`; the slow task's thread ends with it. While nothing is guarded the watchdog sleeps, and `rest` ends it.
    on_replaced(ended): called on the new thread before it reads; `ended` is set when the slow task has ended.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.on_replaced: Callable[[threading.Event], None] = lambda ended: None
        self._name = name
        self._body = body
        self._lock = threading.Lock()
        self._timer: TimerFd | None = None  # there is one while there is a watchdog
        self._timer_is_set = False
        self._readers = 0
        self._tasks = 0  # guarded so far
        self._seen = 0  # of these, when the timer last went off
        self._busy = False
        self._ended = threading.Event()
        self._closing = self._resting = False
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
            if thread is not threading.current_thread():
                thread.join(timeout_s)

    def rest(self) -> None:
        """End the watchdog's thread; only within `body`. The next task starts a new one."""
        with self._lock:
            if self._timer is not None:
                self._resting = True
                self._timer.set(1)

    def guarded(self, task: Callable[[], object]) -> None:
        """Run the task on this thread. Raises ReaderReplaced when another thread reads by the time it has ended."""
        reader = self._readers
        self._tasks += 1
        self._busy = True
        if not self._timer_is_set:
            self._set_timer()
        try:
            task()
        finally:
            with self._lock:
                is_replaced = self._readers != reader
                if not is_replaced:
                    self._busy = False
        if is_replaced:
            raise ReaderReplaced

    def _set_timer(self) -> None:
        with self._lock:
            self._timer_is_set = True
            if self._timer is None:
                self._timer = timer = TimerFd()
                self._spawn(lambda: self._watch(timer))
            self._resting = False
            self._timer.set(TIMEOUT_NS)

    def _dismiss_watchdog(self) -> None:
        with self._lock:
            self._closing = True
            if self._timer is not None:
                self._timer.set(1)

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=self._name, daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

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

    def _watch(self, timer: TimerFd) -> None:
        """Sleep until a task takes too long, then read in place of its thread."""
        ended = None
        while self._timer is timer:
            timer.wait()
            with self._lock:
                if self._closing or self._may_rest():
                    self._timer = None
                elif self._busy and self._tasks == self._seen:
                    ended = self._take_over()
                else:
                    self._go_on_watching(timer)
        timer.close()
        if ended is not None:
            self.on_replaced(ended)
            self._read()

    def _may_rest(self) -> bool:
        if self._resting:
            self._timer_is_set = False  # before the check: a task that begins after it sets the timer itself
        return self._resting and not self._busy

    def _take_over(self) -> threading.Event:
        """Make this thread the reader; the lock is held."""
        ended, self._ended = self._ended, threading.Event()
        self._readers += 1
        self._busy = self._timer_is_set = False
        self._timer = None
        return ended

    def _go_on_watching(self, timer: TimerFd) -> None:
        self._timer_is_set = False  # before the check: a task that begins after it sets the timer itself
        if self._busy or self._tasks != self._seen:
            self._seen = self._tasks
            self._timer_is_set = True
            timer.set(TIMEOUT_NS)
