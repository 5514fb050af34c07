"""The sessions of one engine: created, advanced, looked at, destroyed; by any thread.

    sessions = Sessions(engine.worlds, "cartpole")
    id = sessions.create(seed=7)                            # at once; the world is built on a worker
    outcome = sessions.advance(id, 10, [Command(True)])     # on demand ...
    sessions.run(id, 50.0)                                  # ... or freely, at a rate
    seen = sessions.latest(id, after_tick=outcome.ticks)
    sessions.destroy(id)

Rule 1: what takes long is bounded: worlds are built by a few workers (by the caller where that takes hardly longer
        than to wake one), and few advance at once; who finds no free slot in time gets Busy.
Rule 2: no wait is without a deadline, and a session that ends, ends every wait for it.
Rule 3: a session that nobody asked for in a long time is destroyed.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ClosedError, Unimplemented, UnknownSession
from lucky_transport.messages.session import SessionRecording, ShareSessionResponse
from lucky_transport.pending import Settled
from lucky_transport.rpc.worker_pool import WorkerPool
from lucky_transport.sessions.joint_advance import JointAdvance
from lucky_transport.sessions.limits import Limits
from lucky_transport.sessions.makers import PlainMaker, RecordingMaker, ReplayMaker, WorldMaker
from lucky_transport.sessions.news import Advanced, SessionState, Snapshot
from lucky_transport.sessions.pacer import Pacer
from lucky_transport.sessions.session import Session
from lucky_transport.sessions.shelf import Shelf
from lucky_transport.sessions.turn import Turn, check_turns
from lucky_transport.sessions.watch import Watch
from lucky_transport.sessions.worker_slots import WorkerSlots
from lucky_transport.world import Worlds

__all__ = ["DEFAULT_TIMEOUT_S", "Sessions"]

_log = logging.getLogger("lucky_transport")

#: A world that is built within this time is built by whoever asks for it: less than a busy worker lets him wait.
_AT_ONCE_S = 1e-3
#: How long a call waits that brings no deadline of its own.
DEFAULT_TIMEOUT_S = 60.0


class Sessions:
    """See the module. `close` destroys all of them and ends every thread.

    shelf: where they are shown in shared memory; set by a server that has some.
    """

    def __init__(self, worlds: Worlds, engine: str, limits: Limits | None = None) -> None:
        self.worlds = worlds
        self.engine = engine
        self.limits = limits or Limits()
        self.shelf: Shelf | None = None
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._builders = WorkerPool(f"session builders of {engine}", self.limits.builders, self.limits.sessions)
        self._quick_maps: set[str] = set()  # the last world of these was built within `_AT_ONCE_S`
        self._slots = WorkerSlots(self.limits.slots, self.limits.patience_s)
        self._pacer = Pacer(f"session clock of {engine}")
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
        """Return the id of a new session (12 hexadecimal digits), at once; its world is built meanwhile.

        map_name: one of `worlds.maps`, "" the first. record: keep what it is given, for `recording`. owner: the client
        that it ends with (see `leave`), "" for none. Raises SpecError (unknown map or option), Busy (too many),
        ClosedError. What goes wrong while the world is built is told by `state`, and by SessionEnded from every call.
        """
        maker = RecordingMaker if record else PlainMaker
        return self._start(maker(self.worlds, self.engine, map_name, options or {}), seed, owner)

    def replay(self, recording: SessionRecording, *, owner: str = "") -> str:
        """Return the id of a new session that shows a recorded one again: it takes no actions, and is over with the
        result "replayed" where the recording ends. Raises as `create`.
        """
        return self._start(ReplayMaker(self.worlds, self.engine, recording), None, owner)

    def recording(self, session_id: str) -> SessionRecording:
        """Return what the session did so far: since its last restart. Raises UnknownSession, LocalProtocolError."""
        return self.find(session_id).maker.recording()

    def _start(self, maker: WorldMaker, seed: int | None, owner: str) -> str:
        session = Session(secrets.token_hex(6), maker, self.engine, self._slots, owner)
        self._add(session)
        if maker.map_name in self._quick_maps:  # waking a worker would take longer, for him and for the caller
            self._build(session, seed)
            return session.id
        try:
            self._builders.run(partial(self._build, session, seed))
        except BaseException:
            self.destroy(session.id)
            raise
        return session.id

    def _build(self, session: Session, seed: int | None) -> None:
        start = time.perf_counter()
        session.build(seed)
        if time.perf_counter() - start < _AT_ONCE_S:
            self._quick_maps.add(session.maker.map_name)
        else:
            self._quick_maps.discard(session.maker.map_name)

    def ids(self) -> list[str]:
        """Return the ids of all sessions, oldest first."""
        with self._lock:
            return list(self._sessions)

    def state(self, session_id: str) -> SessionState:
        """Return where the session stands; never waits. Raises UnknownSession."""
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
        is_given_up: Callable[[], bool] | None = None,
    ) -> Advanced:
        """Go on by that many ticks (0: only look) and return what is to be seen then; waits until the world is built.

        actions: taken before the first tick, all of them. interrupts: events that end it early, looked for every
        `check_every` ticks. It also ends early when the world is over; once it is, no tick is done. A session that runs
        freely stands still meanwhile. is_given_up: looked at between ticks, True when nobody waits any more.

        Raises UnknownSession, SessionEnded, Busy ("all worker slots busy"), PeerTimeout, EngineFailed, ValueError.
        """
        if ticks < 0 or check_every < 1:
            raise ValueError(f"ticks {ticks}, check_every {check_every}: expected at least 0 and 1")
        session = self.find(session_id)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        return session.advance(ticks, actions, Watch(interrupts, check_every, deadline, is_given_up), deadline)

    def advance_all(self, turns: Sequence[Turn], deadline: Deadline | None = None) -> list[Advanced]:
        """Advance several sessions together and return their outcomes, in the order of the turns.

        Behind a wire they are under way at the same time; here the caller's thread does one after another. The deadline
        is that of all of them together. A turn that fails keeps no other from its end: when all have ended, the first
        error in the order of the turns is raised, as `advance` raises it, and what the others did is done. Who asks for
        more at once than there are worker slots is not refused for that: Busy means that others hold them.

        Raises ValueError, before anything was done, when a session has two turns.
        """
        check_turns(turns)
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        begins = [partial(Settled.by, partial(self._take_turn, turn, deadline)) for turn in turns]
        return JointAdvance(begins, lambda done: done).run()

    def _take_turn(self, turn: Turn, deadline: Deadline) -> Advanced:
        return self.advance(
            turn.session_id, turn.ticks, turn.actions, turn.interrupts, deadline, check_every=turn.check_every
        )

    def act(self, session_id: str, actions: Sequence[Any]) -> int:
        """Have the next tick take these actions, however it comes about; never waits. Raises UnknownSession,
        SessionEnded.

        At most 16 wait: newer ones push out older ones. Returns how many were pushed out.
        """
        return self.find(session_id).act(actions)

    def run(self, session_id: str, rate_hz: float | None) -> None:
        """Let the session run freely, `rate_hz` ticks a second (0: as fast as it can), or stop it (None); never waits.

        One that is not built yet begins when it is; it stops by itself when the world is over. Raises UnknownSession,
        ValueError.
        """
        if rate_hz is not None and not 0 <= rate_hz < float("inf"):
            raise ValueError(f"rate_hz {rate_hz}: expected ticks per second, 0 for as fast as it can, or None")
        self._pacer.run(self.find(session_id), rate_hz)

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> Snapshot:
        """Return the newest look at the world, which is later than `after_tick`; waits for one while there is none.

        Raises UnknownSession, SessionEnded (also when the world is over and nothing newer can come), PeerTimeout.
        """
        return self.find(session_id).latest(after_tick, Deadline.after(deadline, DEFAULT_TIMEOUT_S))

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> Snapshot:
        """Start the world over with `seed`, in place where it can, and return its first look. The session goes on.

        Raises UnknownSession, SessionEnded, Busy, PeerTimeout, EngineFailed.
        """
        return self.find(session_id).restart(seed, Deadline.after(deadline, DEFAULT_TIMEOUT_S))

    def share(self, session_id: str, client: str, deadline: Deadline | None = None) -> ShareSessionResponse:
        """Show the session to `client` in shared memory too, until it ends or the client leaves.

        Raises UnknownSession, SessionEnded, Unimplemented (the engine serves no shared memory), NoSpace.
        """
        if self.shelf is None:
            raise Unimplemented(
                f"engine {self.engine!r} serves no shared memory", backend=self.engine, hint="ask with GetLatest"
            )
        return self.shelf.share(self.find(session_id), client, Deadline.after(deadline, DEFAULT_TIMEOUT_S))

    def destroy(self, session_id: str) -> None:
        """End a session; never waits. Idempotent: an unknown one is as good as destroyed."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            session.destroy()
            self._pacer.run(session, None)

    def leave(self, client: str) -> None:
        """A client has gone: the sessions that it owned end, and nothing is shown to it any more."""
        if self.shelf is not None:
            self.shelf.leave(client)
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
                hint=f"create one; those that nobody asks for in {self.limits.idle_s:g} s are destroyed",
            )
        session.used_at = time.monotonic()
        return session

    def close(self) -> None:
        """Destroy all sessions and end the threads; idempotent."""
        self._closed.set()
        for session_id in self.ids():
            self.destroy(session_id)
        self._pacer.close()
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
                self._reaper.start()

    def _reap(self) -> None:
        while not self._closed.wait(self.limits.sweep_s):
            oldest = time.monotonic() - self.limits.idle_s
            with self._lock:
                idle = [session.id for session in self._sessions.values() if session.used_at < oldest]
            for session_id in idle:
                _log.warning("session %s was idle for %g s: it is destroyed", session_id, self.limits.idle_s)
                self.destroy(session_id)
