"""Runs sessions freely: one thread gives each its slice, a tick at a rate, or a millisecond of ticks at full speed.

A session that is late continues from now and never makes up for missed ticks. A session that had a slice goes behind
all that are due.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time

from lucky_transport.sessions.session import Session
from lucky_transport.uninterrupted import RECHECK_S, open_gate, start_thread

#: How long a session at full speed runs at once.
_SLICE_S = 1e-3


class Scheduler:
    """Starts its thread with the first session; `close` ends it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._asleep = threading.Lock()  # released to have the thread look again
        self._due: list[tuple[float, int, Session]] = []
        self._next_slices: dict[Session, int] = {}  # the number of each session's next slice; others in _due are void
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, session: Session, rate_hz: float | None) -> None:
        """Run the session at `rate_hz` ticks a second from now on (0: as fast as it can), or stop it (None)."""
        with self._lock:
            if self._closed or (session in self._next_slices and session.rate_hz == rate_hz):
                return
            session.rate_hz = rate_hz
            self._next_slices.pop(session, None)
            if rate_hz is None:
                return
            self._schedule(time.monotonic(), session)
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                start_thread(thread)
                self._thread = thread
        open_gate(self._asleep)

    def close(self, grace_s: float = 1.0) -> None:
        """Start no further slice and wait up to `grace_s` for the one in progress. Idempotent."""
        with self._lock:
            self._closed = True
            self._due.clear()
        open_gate(self._asleep)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(grace_s)

    def _schedule(self, due: float, session: Session) -> None:
        number = self._next_slices[session] = next(self._numbers)
        heapq.heappush(self._due, (due, number, session))

    def _work(self) -> None:
        while (due_slice := self._await_due()) is not None:
            due, number, session = due_slice
            rate_hz = session.rate_hz
            ran = rate_hz is not None and session.run_for(0.0 if rate_hz else _SLICE_S)
            self._reschedule(due, number, session, ran)
            del session, due_slice  # the thread keeps no session alive while it waits
            time.sleep(0)  # a thread that waits for the interpreter need not wait for another slice

    def _await_due(self) -> tuple[float, int, Session] | None:
        """Return the next slice once it is due; None when the scheduler is closed."""
        while not self._closed:
            with self._lock:
                while self._due and self._next_slices.get(self._due[0][2]) != self._due[0][1]:
                    heapq.heappop(self._due)
                wait_s = self._due[0][0] - time.monotonic() if self._due else RECHECK_S
                if wait_s <= 0:
                    return heapq.heappop(self._due)
            self._asleep.acquire(timeout=min(wait_s, RECHECK_S))
        return None

    def _reschedule(self, due: float, number: int, session: Session, ran: bool) -> None:
        """Schedule the session's next slice, unless it has another one meanwhile or has ended."""
        with self._lock:
            rate_hz = session.rate_hz
            if self._next_slices.get(session) != number:
                return
            if rate_hz is None or session.has_ended or self._closed:
                session.rate_hz = None
                del self._next_slices[session]
                return
            now = time.monotonic()
            if not ran:  # it is being built, or another thread holds its world: try again soon
                self._schedule(now + _SLICE_S, session)
            else:
                self._schedule(max(due + 1.0 / rate_hz, now) if rate_hz else now, session)
