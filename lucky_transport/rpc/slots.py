"""A pool of threads for handlers, counted; and how quick each method has proved there.

Rule 1: a method is trusted to be quick after some runs within QUICK_NS, and after each disappointment only after four
        times as many. A slow run now and then is no disappointment: the machine may have been busy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

__all__ = ["LONG_NS", "QUICK_NS", "Pace", "Refusal", "Slots", "Task"]

#: A run that took longer is no quick one; one that took LONG_NS ends the trust at once.
QUICK_NS = 100_000
LONG_NS = 1_000_000
_FIRST_PROOF = 8
_LONGEST_PROOF = 1024
#: Debt of a slow run, and at which the trust ends; a quick run pays back 1. So one slow run in nine is borne for ever.
_SLOW = 8
_LIMIT = 64

#: What runs a handler; it answers the handler's errors itself.
Task = Callable[[], object]
#: Answers a call whose task the pool did not take.
Refusal = Callable[[Exception], object]


class Pace:
    """How quick one method is. to_prove: quick runs that are still asked for; 0: it is trusted."""

    __slots__ = ("_debt", "_proof", "to_prove")

    def __init__(self) -> None:
        self._proof = self.to_prove = _FIRST_PROOF
        self._debt = 0

    def timed(self, task: Task) -> None:
        """Run the task, and note how long it took."""
        start = time.perf_counter_ns()
        try:
            task()
        finally:
            self.note(time.perf_counter_ns() - start)

    def note(self, took_ns: int) -> None:
        """Note one run of so many nanoseconds."""
        if took_ns <= QUICK_NS:
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


class Slots:
    """The pool's threads: `submit` gives it a task, it runs `threads` at once. in_use: handlers that run or wait."""

    def __init__(self, submit: Callable[[Task], object], threads: int) -> None:
        self.submit = submit
        self.threads = threads
        self.in_use = 0
        self._lock = threading.Lock()
        self._paces: dict[str, Pace] = {}

    def pace(self, method: str) -> Pace:
        """Return what is known of the method."""
        pace = self._paces.get(method)
        return self._paces.setdefault(method, Pace()) if pace is None else pace

    def take(self) -> bool:
        """Take one for a handler that runs elsewhere, to be given back by `leave`; False when all are in use."""
        with self._lock:
            if self.in_use >= self.threads:
                return False
            self.in_use += 1
            return True

    def leave(self) -> None:
        """Give one back."""
        with self._lock:
            self.in_use -= 1

    def run(self, pace: Pace, task: Task, refuse: Refusal) -> None:
        """Have the pool run the task; `refuse` is told why, if it does not take it."""
        with self._lock:
            self.in_use += 1
        try:
            self.submit(partial(self._run, pace, task))
        except Exception as error:
            self.leave()
            refuse(error)

    def _run(self, pace: Pace, task: Task) -> None:
        try:
            pace.timed(task)
        finally:
            self.leave()
