"""The sessions of one engine, in its own process, for any thread.

    sessions = Sessions(engine.worlds, "cartpole")
    session = sessions.create(seed=7)                         # at once; the world is built by a worker
    done = sessions.advance(session, 10, [Command(True)])     # on demand ...
    sessions.run(session, 50.0)                               # ... or freely, at a rate
    newest = sessions.latest(session, after_tick=done.ticks)
    sessions.destroy(session)

Long work is bounded: a few workers build worlds, and few worlds advance at once. Every wait has a deadline, and a
session that ends ends every wait for it. A session without any call for a long time is destroyed.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, ConfigError, UnknownSession
from lucky_transport.futures import completed
from lucky_transport.messages import SessionRecording, SessionStatus
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.sessions.api import (
    DEFAULT_TIMEOUT_S,
    AdvanceRequest,
    AdvanceResult,
    SessionApi,
    WorldSnapshot,
    check_distinct,
)
from lucky_transport.sessions.batch_advance import BatchAdvance
from lucky_transport.sessions.recording import RecordingFactory, ReplayFactory, WorldFactory
from lucky_transport.sessions.session import InterruptCheck, Session, SessionLimits, WorkerSlots
from lucky_transport.uninterrupted import RECHECK_S, open_gate, start_thread
from lucky_transport.world import Worlds

_log = logging.getLogger("lucky_transport")
#: How long a session at full speed runs at once.
_SLICE_S = 1e-3


class Scheduler:
    """Runs sessions freely: one thread gives each its slice, a tick at a rate, or a millisecond of ticks at full speed.

    A session that is late continues from now and never makes up for missed ticks. A session that had a slice goes
    behind all that are due. The thread starts with the first session; `close` ends it.
    """

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


class Sessions(SessionApi):
    """`close` destroys all sessions and ends every thread."""

    def __init__(self, worlds: Worlds, engine: str, limits: SessionLimits | None = None) -> None:
        self.worlds = worlds
        self.engine = engine
        self.limits = limits or SessionLimits()
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._builders = WorkerPool(f"session builders of {engine}", self.limits.builders, self.limits.sessions)
        self._slots = WorkerSlots(self.limits)
        self._scheduler = Scheduler(f"session clock of {engine}")
        self._reaper: threading.Thread | None = None
        self._closed = threading.Event()

    def create(
        self,
        map_name: str = "",
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        record: bool = False,
        owner: str = "",
    ) -> str:
        """owner: the client whose `leave` ends the session, "" for none."""
        factory = RecordingFactory if record else WorldFactory
        return self._start(factory(self.worlds, self.engine, map_name, options or {}), seed, owner)

    def replay(self, recording: SessionRecording, *, owner: str = "") -> str:
        """owner: the client whose `leave` ends the session, "" for none."""
        return self._start(ReplayFactory(self.worlds, self.engine, recording), None, owner)

    def recording(self, session_id: str) -> SessionRecording:
        return self.find(session_id).factory.recording()

    def _start(self, factory: WorldFactory, seed: int | None, owner: str) -> str:
        session = Session(secrets.token_hex(6), factory, self.engine, self._slots, owner)
        self._add(session)
        try:
            self._builders.run(partial(session.build, seed))
        except BaseException:
            self.destroy(session.id)
            raise
        return session.id

    def ids(self) -> list[str]:
        with self._lock:
            return list(self._sessions)

    def state(self, session_id: str) -> SessionStatus:
        return self.find(session_id).state()

    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Any] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> AdvanceResult:
        """is_cancelled: checked between ticks; True when no caller waits any more."""
        if ticks < 0 or check_every < 1:
            raise ConfigError(f"ticks {ticks}, check_every {check_every}: expected at least 0 and 1")
        session = self.find(session_id)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        return session.advance(
            ticks, actions, InterruptCheck(interrupts, check_every, deadline, is_cancelled), deadline
        )

    def advance_all(self, requests: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> list[AdvanceResult]:
        check_distinct(requests)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)

        def begin(one: AdvanceRequest) -> Future[AdvanceResult]:
            advance = partial(self.advance, one.session_id, one.ticks, one.actions, one.interrupts, deadline)
            return completed(partial(advance, check_every=one.check_every))

        return BatchAdvance([partial(begin, one) for one in requests], lambda done: done).run()

    def act(self, session_id: str, actions: Sequence[Any]) -> int:
        return self.find(session_id).act(actions)

    def run(self, session_id: str, rate_hz: float | None) -> None:
        if rate_hz is not None and not 0 <= rate_hz < float("inf"):
            raise ConfigError(f"rate_hz {rate_hz}: expected ticks per second, 0 for as fast as it can, or None")
        self._scheduler.run(self.find(session_id), rate_hz)

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> WorldSnapshot:
        return self.find(session_id).latest(after_tick, Deadline.after(deadline, DEFAULT_TIMEOUT_S))

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> WorldSnapshot:
        return self.find(session_id).restart(seed, Deadline.after(deadline, DEFAULT_TIMEOUT_S))

    def destroy(self, session_id: str) -> None:
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            session.destroy()
            self._scheduler.run(session, None)

    def leave(self, client: str) -> None:
        """End the sessions that a client owned."""
        with self._lock:
            owned = [session.id for session in self._sessions.values() if session.owner == client]
        for session_id in owned:
            self.destroy(session_id)

    def find(self, session_id: str) -> Session:
        """Return the session and note that it is in use. Raises UnknownSession."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(
                f"engine {self.engine!r} has no session {session_id!r}",
                backend=self.engine,
                hint=f"create one; a session without a call for {self.limits.idle_s:g} s is destroyed",
            )
        session.used_at = time.monotonic()
        return session

    def close(self) -> None:
        """Destroy all sessions and end the threads; idempotent."""
        self._closed.set()
        for session_id in self.ids():
            self.destroy(session_id)
        self._scheduler.close()
        self._builders.close()
        if self._reaper is not None:
            self._reaper.join(1.0)

    def _add(self, session: Session) -> None:
        with self._lock:
            if self._closed.is_set():
                raise ClosedError("the engine is closing", backend=self.engine)
            if len(self._sessions) >= self.limits.sessions:
                raise Busy(
                    f"all {self.limits.sessions} sessions are in use", backend=self.engine, hint="destroy one first"
                )
            self._sessions[session.id] = session
            if self._reaper is None:
                self._reaper = threading.Thread(target=self._reap, name=f"session reaper of {self.engine}", daemon=True)
                start_thread(self._reaper)

    def _reap(self) -> None:
        while not self._closed.wait(self.limits.sweep_s):
            oldest = time.monotonic() - self.limits.idle_s
            with self._lock:
                idle = [session.id for session in self._sessions.values() if session.used_at < oldest]
            for session_id in idle:
                _log.warning("session %s was idle for %g s: it is destroyed", session_id, self.limits.idle_s)
                self.destroy(session_id)
