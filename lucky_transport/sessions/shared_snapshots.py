"""Snapshots of sessions in shared memory: one file per session and client that asked for it.

`SharedSnapshots` is the engine's end, `SnapshotReader` the client's: it reads the newest snapshot without a call, and
reading costs the engine nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, RemoteProtocolError, SessionEnded
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.fork import on_child
from lucky_transport.messages import SessionSnapshot, ShareSessionResponse
from lucky_transport.sessions.api import DEFAULT_TIMEOUT_S, WorldSnapshot, nothing_newer
from lucky_transport.sessions.session import Session
from lucky_transport.sessions.snapshots import from_message, to_message
from lucky_transport.shm.files.liveness import LockHolder, start_time
from lucky_transport.shm.files.lockfile import DIRECTORY, lock_path_of
from lucky_transport.shm.segment.owners import engine_of
from lucky_transport.shm.segment.segment_files import map_segment
from lucky_transport.shm.slot_files.latest_value import LatestValueFile, LatestValueState
from lucky_transport.shm.timing import PEER_POLL_NS
from lucky_transport.uninterrupted import uninterrupted
from lucky_transport.world import Worlds

#: A file's slots are this many times as large as the snapshot at the time it is made.
_HEADROOM = 2
_NAME = re.compile(r"([A-Za-z0-9_.-]{1,200})\.looks\.[0-9]{1,10}")


class SharedSnapshots:
    """The files beside the segment at `base`.

    A file goes when its session ends, when its client leaves and when a snapshot has outgrown it; with the engine's
    segment at the latest.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._shared: dict[str, set[_SharedSession]] = {}

    def share(self, session: Session, client: str, deadline: Deadline) -> ShareSessionResponse:
        """Write every snapshot of the session for `client` from now on. Raises SessionEnded, PeerTimeout, NoSpace."""
        record = encode(to_message(session.latest(-1, deadline)))
        file = self._make(_HEADROOM * len(record))
        shared = _SharedSession(file)
        with self._lock:
            others = self._shared.get(client, set())
            self._shared[client] = {shared, *(other for other in others if not other.has_ended)}
        session.world_lock.subscribe(shared)
        session.latest(-1, deadline)  # it may have advanced before the file was subscribed
        pid = os.getpid()
        return ShareSessionResponse(file.path.name, pid, start_time(pid))

    def leave(self, client: str) -> None:
        """Remove the files of a client that has gone."""
        with self._lock:
            gone = self._shared.pop(client, set())
        for shared in gone:
            run_unwaited("the end of a session's file", shared.end)

    def close(self) -> None:
        """Remove all files."""
        for client in list(self._shared):
            self.leave(client)

    def _make(self, least_bytes: int) -> LatestValueFile:
        while True:
            path = self._base.with_name(f"{self._base.name}.looks.{next(self._numbers)}")
            try:
                return LatestValueFile.create(path, least_bytes)
            except FileExistsError:
                continue  # left by an engine that was killed


class _SharedSession:
    """One session for one client, a subscriber of its snapshots."""

    def __init__(self, file: LatestValueFile) -> None:
        self._file: LatestValueFile | None = file
        self._lock = threading.Lock()

    @property
    def has_ended(self) -> bool:
        """True when nothing is written any more: its session has ended, or its client has gone."""
        return self._file is None

    def on_snapshot(self, snapshot: WorldSnapshot) -> bool:
        """Write the snapshot into the file; False when nothing is written any more."""
        record = encode(to_message(snapshot))
        with self._lock:
            if self._file is None:
                return False
            if self._file.put(record):
                return True
        self._end(LatestValueState.OUTGROWN)
        return False

    def end(self) -> None:
        """The session has ended, or its client has gone; idempotent."""
        self._end(LatestValueState.ENDED)

    def _end(self, state: LatestValueState) -> None:
        with self._lock:
            file, self._file = self._file, None  # the session holds this one until its next snapshot
            if file is not None:
                file.end(state)
                file.unlink()


class SnapshotReader:
    """Made by `SessionClient.watch`. share: asks the engine for the file until a deadline, again when a snapshot
    has outgrown it.

    Raises what `share` raises, and SegmentError when the engine is on another host.
    """

    def __init__(
        self,
        session_id: str,
        share: Callable[[Deadline], ShareSessionResponse],
        worlds: Worlds,
        deadline: Deadline | None = None,
        *,
        strategy: int = 1,
    ) -> None:
        self._session_id = session_id
        self._share = share
        self._worlds = worlds
        self._strategy = strategy
        self._lock = threading.Lock()
        self._is_closed = False
        self._open(Deadline.after(deadline, DEFAULT_TIMEOUT_S))
        on_child(self.close)  # a file has one reader: a forked child must not read it

    def latest(self, after_tick: int = -1, deadline: Deadline | None = None) -> WorldSnapshot:
        """Return the newest snapshot with more ticks than `after_tick`; waits while there is none.

        A dead engine or an ended session ends the wait within a moment; one thread at a time reads.

        Raises SessionEnded, PeerDied, PeerTimeout, RemoteProtocolError, ClosedError (closed, or in a forked child).
        """
        deadline = Deadline.after(deadline, DEFAULT_TIMEOUT_S)
        held = False
        try:
            self._check_open()  # a forked child does not wait for the lock: a thread of its parent may hold it
            [held] = uninterrupted(self._lock.acquire, True, min(deadline.remaining_s, threading.TIMEOUT_MAX))
            while held:
                mark = self._file.mark  # before the state: an end after this line changes the mark
                if self._has_moved(deadline):
                    continue
                record = self._file.read()
                message = decode(SessionSnapshot, record) if record is not None else None
                if message is not None and message.ticks > after_tick:
                    return from_message(message, self._worlds)
                self._wait(message, mark, deadline)
                if deadline.expired:
                    break
            raise nothing_newer(self._session_id, after_tick, deadline)
        finally:
            if held:
                self._lock.release()

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._is_closed = True
        self._engine.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this subscription to a session is closed", backend="shm", hint="watch the session again")

    def _has_moved(self, deadline: Deadline) -> bool:
        """Open the new file if the snapshots have moved there, and return whether they have. Raises when none come."""
        self._check_open()
        state = self._file.state
        if state == LatestValueState.ENDED:
            raise SessionEnded(f"session {self._session_id} has ended", backend="shm", hint="create another one")
        if not self._engine.alive:
            raise self._dead()
        if state == LatestValueState.OUTGROWN:
            self._engine.close()
            self._open(deadline)
        return state == LatestValueState.OUTGROWN

    def _dead(self) -> PeerDied:
        return PeerDied(
            f"the engine ({self._engine.name}) of session {self._session_id} ended",
            backend="shm",
            hint="start it and connect again",
        )

    def _wait(self, message: SessionSnapshot | None, mark: int, deadline: Deadline) -> None:
        """Wait a moment for a newer snapshot. Raises SessionEnded when none can come."""
        if message is not None and message.is_over:
            raise SessionEnded(
                f"session {self._session_id} is over since tick {message.ticks}: there is nothing newer to see"
            )
        self._file.wait(mark, self._strategy, min(deadline.remaining_ns, PEER_POLL_NS))

    def _open(self, deadline: Deadline) -> None:
        shared = self._share(deadline)
        name = _NAME.fullmatch(shared.name)
        if name is None:
            raise RemoteProtocolError(f"a session in {shared.name!r}", backend="shm", hint="the peer is broken")
        self._file = LatestValueFile.open(DIRECTORY / shared.name)
        self._engine = _engine_at(DIRECTORY / name[1])


def _engine_at(path: Path) -> LockHolder:
    """Return the engine of the segment at `path`. Raises PeerDied when it is gone, SegmentError."""
    mapping = map_segment(path)
    if mapping is None:
        raise PeerDied(f"the engine of {path} ended", backend="shm", hint="start it and connect again")
    return engine_of(mapping, lock_path_of(path))
