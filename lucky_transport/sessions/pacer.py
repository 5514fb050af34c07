"""The clock of sessions that run freely: one thread gives each its turns.

    due ──▶ one turn (a tick; at full speed as many as fit into a millisecond) ──▶ due again

Rule 1: a session that is late goes on from now: it never makes up for ticks it missed.
Rule 2: turns are fair: who had one goes behind all that are due.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time

from lucky_transport.sessions.session import Session

__all__ = ["Pacer"]

#: What a session that runs as fast as it can gets at once.
_TURN_S = 1e-3


class Pacer:
    """Starts its thread with the first session; `close` ends it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Session]] = []
        self._turns: dict[Session, int] = {}  # the number of each session's next turn: any other in _due is void
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, session: Session, rate_hz: float | None) -> None:
        """From now on let the session run, `rate_hz` ticks a second (0: as fast as it can), or stand still (None)."""
        with self._changed:
            if self._closed or (session in self._turns and session.rate_hz == rate_hz):
                return
            session.rate_hz = rate_hz
            self._turns.pop(session, None)
            if rate_hz is None:
                return
            self._put(time.monotonic(), session)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, grace_s: float = 1.0) -> None:
        """Give no turns any more; a turn that goes on is waited for up to `grace_s`. Idempotent."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(grace_s)

    def _put(self, due: float, session: Session) -> None:
        number = self._turns[session] = next(self._numbers)
        heapq.heappush(self._due, (due, number, session))

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            due, number, session = turn
            rate_hz = session.rate_hz
            ran = rate_hz is not None and session.run_for(0.0 if rate_hz else _TURN_S)
            self._again(due, number, session, ran)
            del session, turn  # nothing of it is kept while the thread waits
            time.sleep(0)  # who waits for the interpreter need not wait for another turn of ours

    def _next(self) -> tuple[float, int, Session] | None:
        """Return the next turn once it is due; None when the pacer is closed."""
        with self._changed:
            while not self._closed:
                while self._due and self._turns.get(self._due[0][2]) != self._due[0][1]:
                    heapq.heappop(self._due)
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._due)
                self._changed.wait(None if wait_s is None else min(wait_s, threading.TIMEOUT_MAX))
            return None

    def _again(self, due: float, number: int, session: Session, ran: bool) -> None:
        """Put the session's next turn down, unless it has got another one meanwhile or has ended."""
        with self._changed:
            rate_hz = session.rate_hz
            if self._turns.get(session) != number:
                return
            if rate_hz is None or session.has_ended or self._closed:
                session.rate_hz = None
                del self._turns[session]
                return
            now = time.monotonic()
            if not ran:  # it is being built, or somebody else holds it: a look again soon
                self._put(now + _TURN_S, session)
            else:
                self._put(max(due + 1.0 / rate_hz, now) if rate_hz else now, session)
