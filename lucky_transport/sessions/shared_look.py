"""The client's end of a session in shared memory: the newest look without a call.

Rule 1: looking costs the engine nothing, and what was missed is gone: the newest look is what is seen, however long the
        client was busy.
Rule 2: a dead engine ends a wait within a moment; a session that ended ends it at once.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable

from lucky_transport.codec.flatbuffers import decode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, RemoteProtocolError, SessionEnded
from lucky_transport.messages.session import SessionLook, ShareSessionResponse
from lucky_transport.sessions.news import Snapshot, nothing_newer
from lucky_transport.sessions.sessions import DEFAULT_TIMEOUT_S
from lucky_transport.shm.liveness import Peer
from lucky_transport.shm.look_file import LookFile, LookState
from lucky_transport.shm.results import Result
from lucky_transport.shm.segment import DIRECTORY
from lucky_transport.world import Worlds

__all__ = ["SharedLook", "snapshot_of"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}\.looks\.[0-9]{1,10}")
_SLICE_NS = 200_000_000


def snapshot_of(look: SessionLook, worlds: Worlds) -> Snapshot:
    """Return the look with its observation decoded; raises RemoteProtocolError."""
    observation = decode(worlds.observation, look.observation)
    return Snapshot(observation, look.ticks, look.is_over, look.result, look.score)


class SharedLook:
    """Made by `SessionClient.watch`. share: asks the engine where to look; asked again when a look has outgrown its
    file.

    Raises as `share` does, SegmentError when the engine is on another host.
    """

    def __init__(
        self, session_id: str, share: Callable[[], ShareSessionResponse], worlds: Worlds, *, strategy: int = 1
    ) -> None:
        self._session_id = session_id
        self._share = share
        self._worlds = worlds
        self._strategy = strategy
        self._lock = threading.Lock()
        self._pid = os.getpid()  # a forked child must not look: a file has one reader
        self._is_closed = False
        self._open()

    def latest(self, after_tick: int = -1, deadline: Deadline | None = None) -> Snapshot:
        """Return the newest look, which is later than `after_tick`; waits for one while there is none.

        Raises SessionEnded, PeerDied, PeerTimeout, RemoteProtocolError, ClosedError (closed, or in a forked child).
        """
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        with self._lock:
            while True:
                mark = self._file.mark  # before the state: what ends after this look changes the mark
                if self._has_moved():
                    continue
                record = self._file.read()
                look = decode(SessionLook, record) if record is not None else None
                if look is not None and look.ticks > after_tick:
                    return snapshot_of(look, self._worlds)
                self._wait(look, mark, deadline)
                if deadline.expired:
                    raise nothing_newer(self._session_id, after_tick, deadline)

    def close(self) -> None:
        """Let go of the engine; idempotent."""
        self._is_closed = True
        self._engine.close()

    def _has_moved(self) -> bool:
        """Go where the looks are by now, and return whether that is elsewhere. Raises where there are none any more."""
        if self._is_closed or os.getpid() != self._pid:
            raise ClosedError("this look at a session is closed", backend="shm", hint="watch the session again")
        state = self._file.state
        if state == LookState.ENDED:
            raise SessionEnded(f"session {self._session_id} has ended", backend="shm", hint="create another one")
        if not self._engine.alive:
            raise self._dead()
        if state == LookState.OUTGROWN:
            self._engine.close()
            self._open()
        return state == LookState.OUTGROWN

    def _dead(self) -> PeerDied:
        return PeerDied(
            f"the engine (pid {self._engine.pid}) of session {self._session_id} ended",
            backend="shm",
            hint="start it and connect again",
        )

    def _wait(self, look: SessionLook | None, mark: int, deadline: Deadline) -> None:
        """Wait for something newer. Raises what `latest` does when it cannot come, or not in time."""
        if look is not None and look.is_over:
            raise SessionEnded(
                f"session {self._session_id} is over since tick {look.ticks}: there is nothing newer to see"
            )
        found = self._file.wait(mark, self._strategy, self._engine.pidfd, min(deadline.remaining_ns, _SLICE_NS))
        if found == Result.PEER_GONE:
            raise self._dead()

    def _open(self) -> None:
        shared = self._share()
        if not _NAME.fullmatch(shared.name):
            raise RemoteProtocolError(f"a session in {shared.name!r}", backend="shm", hint="the peer is broken")
        self._file = LookFile.open(DIRECTORY / shared.name)
        self._engine = Peer(shared.engine_pid, shared.engine_started)
