"""Sessions shown in shared memory: one file per session and client that asked for it (`lucky_transport.shm.look_file`).

Rule 1: a file goes when its session ends, when its client leaves, and when a look has outgrown it; with the engine's
        segment at the latest.
"""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.messages.session import SessionLook, ShareSessionResponse
from lucky_transport.sessions.news import Snapshot
from lucky_transport.sessions.session import Session
from lucky_transport.shm.liveness import start_time
from lucky_transport.shm.look_file import LookFile, LookState

__all__ = ["Shelf", "look_of"]

#: A file's slots are that many times as large as what is to be seen when it is made.
_ROOM = 2


def look_of(seen: Snapshot) -> SessionLook:
    """Return the message that tells of a look. Raises TypeError or ValueError for an observation that cannot travel."""
    return SessionLook(encode(seen.observation), seen.ticks, seen.is_over, seen.result, seen.score)


class Shelf:
    """The files beside the segment at `base`."""

    def __init__(self, base: Path, *, native: bool = True) -> None:
        self._base = base
        self._native = native
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._shown: dict[str, set[_ShownSession]] = {}

    def share(self, session: Session, client: str, deadline: Deadline) -> ShareSessionResponse:
        """Show the session to `client` from now on. Raises as `Session.latest`, NoSpace."""
        record = encode(look_of(session.latest(-1, deadline)))
        shown = _ShownSession(self._make(_ROOM * len(record)))
        with self._lock:
            others = self._shown.get(client, set())
            self._shown[client] = {shown, *(other for other in others if not other.has_ended)}
        session.custody.show_to(shown)
        session.latest(-1, deadline)  # it may have gone on before the file was known
        pid = os.getpid()
        return ShareSessionResponse(shown.file.path.name, pid, start_time(pid))

    def leave(self, client: str) -> None:
        """The client has gone: nothing is shown to it any more."""
        with self._lock:
            gone = self._shown.pop(client, set())
        for shown in gone:
            shown.end()

    def close(self) -> None:
        """Show nothing any more."""
        for client in list(self._shown):
            self.leave(client)

    def _make(self, least_bytes: int) -> LookFile:
        while True:
            path = self._base.with_name(f"{self._base.name}.looks.{next(self._numbers)}")
            try:
                return LookFile.create(path, least_bytes, native=self._native)
            except FileExistsError:
                continue  # left by an engine that was killed


class _ShownSession:
    """One session for one client; a viewer of its custody. has_ended: nothing is shown here any more."""

    def __init__(self, file: LookFile) -> None:
        self.file = file
        self._lock = threading.Lock()
        self.has_ended = False

    def show(self, seen: Snapshot) -> bool:
        """Put the look into the file; False when nothing is shown here any more."""
        record = encode(look_of(seen))
        with self._lock:
            if self.has_ended:
                return False
            if self.file.put(record):
                return True
        self._end(LookState.OUTGROWN)
        return False

    def end(self) -> None:
        """The session has ended, or its client has gone; idempotent."""
        self._end(LookState.ENDED)

    def _end(self, state: LookState) -> None:
        with self._lock:
            if not self.has_ended:
                self.has_ended = True
                self.file.end(state)
                self.file.unlink()
