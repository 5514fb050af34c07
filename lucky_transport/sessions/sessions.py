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

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, UnknownSession
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
from lucky_transport.sessions.scheduler import Scheduler
from lucky_transport.sessions.session import InterruptCheck, Session, SessionLimits, WorkerSlots
from lucky_transport.uninterrupted import start_thread
from lucky_transport.world import Worlds

_log = logging.getLogger("lucky_transport")


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
            raise ValueError(f"ticks {ticks}, check_every {check_every}: expected at least 0 and 1")
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
            raise ValueError(f"rate_hz {rate_hz}: expected ticks per second, 0 for as fast as it can, or None")
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
