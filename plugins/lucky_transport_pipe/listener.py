"""The client's end of connecting: it offers the pipe as a unix socket, and the engine connects."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ConfigError, NotReachable
from lucky_transport.found_file import remove_unused_socket
from lucky_transport.limits import limit_reached
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import peer_of, process_name
from lucky_transport_pipe.address import BACKEND, lock_path, path_of
from lucky_transport_pipe.connection import PipeConnection

_SLICE_MS = 50
#: An engine that removes what a killed client left holds the lock for an instant.
_TIDYING_S = 0.25
_OTHER_PLACE = "use another name or TMPDIR"


class PipeListener:
    """Offers the pipe called `name` to one engine, until `close`.

    Raises Busy with the pid of a client that offers it already, ConfigError for a name or place that cannot be.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = path_of(name)
        self._lock_path = lock_path(self.path)
        self._lock: lockfile.Lock | None = None
        self._pid = os.getpid()
        self._listener: socket.socket | None = None
        self._is_closed = False
        self._lock_name()
        try:
            self._listener = self._listen()
        except BaseException:
            self.close()
            raise

    def _lock_name(self) -> None:
        deadline = Deadline(_TIDYING_S)
        try:
            while (lock := lockfile.acquire(self._lock_path, lockfile.CLIENT)) is None:
                if deadline.expired:
                    raise self._busy()
                time.sleep(0.005)
            self._lock = lock
        except OSError as error:
            raise _unusable(self.path, error) from error

    def _busy(self) -> Busy:
        other = process_name(lockfile.holder(self._lock_path, lockfile.CLIENT) or 0)
        return Busy(
            f"pipe {self.name!r} has a client already, {other}",
            backend=BACKEND,
            hint="one client drives an engine; close that one first, or use another name",
        )

    def _listen(self) -> socket.socket:
        try:
            with contextlib.ExitStack() as undo:
                listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC))
                if not remove_unused_socket(self.path):
                    raise Busy(
                        f"another program listens at {self.path}", backend=BACKEND, hint="end it, or use another name"
                    )
                listener.bind(self.path)
                undo.callback(os.unlink, self.path)
                os.chmod(self.path, 0o600)
                listener.listen(1)
                undo.pop_all()
                return listener
        except OSError as error:
            raise _unusable(self.path, error) from error

    def accept(self, deadline: Deadline, exit_report: Callable[[], str] = lambda: "") -> PipeConnection:
        """Return the connection of the engine that comes. The socket's file is then gone: no other engine can come.

        exit_report: how the engine's process ended, "" while it lives. Raises NotReachable when none has come in time
        or the process has ended, RemoteProtocolError for another user's process.
        """
        assert self._listener is not None
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        while not poller.poll(min(_SLICE_MS, deadline.remaining_s * 1000)):
            if report := exit_report():
                raise NotReachable(f"the engine ended before it came to pipe {self.name!r}: {report}", backend=BACKEND)
            if deadline.expired:
                raise NotReachable(
                    f"no engine came to pipe {self.name!r} ({self.path}) within {deadline.timeout_s} s",
                    backend=BACKEND,
                    hint="start it with this name, and with the same TMPDIR",
                )
        connection, _ = self._listener.accept()
        try:
            with contextlib.closing(peer_of(connection)) as peer:
                pid = peer.pid
        except BaseException:
            connection.close()
            raise
        self._stop_listening()
        return PipeConnection(connection, f"the engine (pid {pid})" if pid else "the engine")

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            if os.getpid() == self._pid and (place := Path(self.path)).is_socket():
                place.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next client have the pipe; idempotent, and nothing is removed in a forked child."""
        if not self._is_closed:
            self._is_closed = True
            self._stop_listening()
            if self._lock is not None:
                self._lock.release(unlink=True)


def _unusable(path: str, error: OSError) -> ConfigError:
    reached, remedy = limit_reached(error)
    text = f"no pipe can be at {path}: {reached or error.strerror or error}"
    return ConfigError(text, backend=BACKEND, hint=remedy or _OTHER_PLACE)
