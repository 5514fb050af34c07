"""The thread that reads what callers send. It may run quick handlers itself: if one is not quick, another reads on.

    reading = Reading("commands", body)      # body(): wait for callers and handle what they send, until it is over
    reading.guarded(task)                    # within body(): run a handler here, under guard

Rule 1: one thread reads at a time. Whoever reads runs `body`, which may begin anew at any time on another thread.
Rule 2: a guarded task that has not ended after one or two PATIENCE_NS loses the reading to the guard; its thread ends
        when the task does, and a new guard takes the old one's place.
Rule 3: while nothing is guarded the guard sleeps, and nothing wakes it until `rest` ends it. With it go its thread and
        its descriptor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lucky_transport.rpc.timer import Timer

__all__ = ["PATIENCE_NS", "Overtaken", "Reading"]

PATIENCE_NS = 2_000_000


class Overtaken(Exception):
    """Another thread reads by now; this one has to leave `body`."""


class Reading:
    """See the module.

    on_overtaken(ended): called on the thread that reads from now on, before it does; `ended` is set when the task that
    was not quick has ended.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.on_overtaken: Callable[[threading.Event], None] = lambda ended: None
        self._name = name
        self._body = body
        self._lock = threading.Lock()
        self._timer: Timer | None = None  # there is one while there is a guard
        self._timer_is_set = False
        self._shift = 0
        self._tasks = 0  # guarded so far
        self._seen = 0  # of these, when the timer last went off
        self._busy = False
        self._ended = threading.Event()
        self._closing = self._resting = False
        self._threads: list[threading.Thread] = []

    @property
    def has_started(self) -> bool:
        """True from `start` on."""
        return self._shift > 0

    def start(self) -> None:
        """Begin to read, on a thread of its own; once."""
        self._shift = 1
        self._spawn(self._read)

    def close(self, patience_s: float) -> None:
        """Wait until nobody reads, `patience_s` at most; the caller has seen to it that `body` ends. Idempotent."""
        self._dismiss_guard()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(patience_s)

    def rest(self) -> None:
        """End the guard, because nothing is to be guarded for now; only within `body`. The next task gets a new one."""
        with self._lock:
            if self._timer is not None:
                self._resting = True
                self._timer.set(1)

    def guarded(self, task: Callable[[], object]) -> None:
        """Run the task on this thread, which reads. Raises Overtaken when another reads by the time it has ended."""
        shift = self._shift
        self._tasks += 1
        self._busy = True
        if not self._timer_is_set:
            self._set_timer()
        try:
            task()
        finally:
            with self._lock:
                is_overtaken = self._shift != shift
                if not is_overtaken:
                    self._busy = False
        if is_overtaken:
            raise Overtaken

    def _set_timer(self) -> None:
        with self._lock:
            self._timer_is_set = True
            if self._timer is None:
                self._timer = timer = Timer()
                self._spawn(lambda: self._guard(timer))
            self._resting = False
            self._timer.set(PATIENCE_NS)

    def _dismiss_guard(self) -> None:
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
        except Overtaken:
            pass
        except BaseException:
            self._dismiss_guard()
            raise
        else:
            self._dismiss_guard()
        finally:
            ended.set()

    def _guard(self, timer: Timer) -> None:
        """Sleep until a task takes too long, then read in its thread's place."""
        ended = None
        while self._timer is timer:
            timer.wait()
            with self._lock:
                if self._closing or self._may_rest():
                    self._timer = None
                elif self._busy and self._tasks == self._seen:
                    ended = self._take_over()
                else:
                    self._go_on_guarding(timer)
        timer.close()
        if ended is not None:
            self.on_overtaken(ended)
            self._read()

    def _may_rest(self) -> bool:
        if self._resting:
            self._timer_is_set = False  # before the look: a task that begins after it sets the timer itself
        return self._resting and not self._busy

    def _take_over(self) -> threading.Event:
        """Begin a new shift; the lock is held."""
        ended, self._ended = self._ended, threading.Event()
        self._shift += 1
        self._busy = self._timer_is_set = False
        self._timer = None
        return ended

    def _go_on_guarding(self, timer: Timer) -> None:
        self._timer_is_set = False  # before the look: a task that begins after it sets the timer itself
        if self._busy or self._tasks != self._seen:
            self._seen = self._tasks
            self._timer_is_set = True
            timer.set(PATIENCE_NS)
