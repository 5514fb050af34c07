"""The engine's end: it connects to the pipe that a client offers, and to the next client's when that one has gone.

One client at a time; whatever a client does ends its own connection at most.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerDied, TransportError, Unimplemented
from lucky_transport.found_file import remove_unused_socket
from lucky_transport.host.host import Host
from lucky_transport.process import unique_name
from lucky_transport.serving import Server
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.file_watch import FileWatch
from lucky_transport.shm.files.liveness import peer_of
from lucky_transport.uninterrupted import start_thread
from lucky_transport_pipe.address import BACKEND, lock_path, path_of
from lucky_transport_pipe.connection import PipeConnection
from lucky_transport_pipe.line_service import LineService
from lucky_transport_pipe.options import SessionRules, rules_of
from lucky_transport_pipe.run import Experiments

_log = logging.getLogger("lucky_transport")
#: How often an engine tries again to connect where a socket is that nobody listens at.
_RETRY_S = 0.05
_CLOSING_S = 1.0


def server(endpoint: Endpoint, settings: Settings) -> PipeServer:
    """Return a server for `pipe://NAME` (`pipe:`: a name of its own). Raises ConfigError."""
    return PipeServer(endpoint if endpoint.address else endpoint.with_address(unique_name()), settings)


class PipeServer(Server):
    """Lets the clients that offer one pipe play the engine's worlds.

    connect_timeout_s: None to serve one client after another without end; else it waits so long for one, and ends with
    that one. on_end: called when no more are served. clients: how many came so far.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        *,
        connect_timeout_s: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients = 0
        self._on_end = on_end
        self._connect_timeout_s = connect_timeout_s
        self._endpoint = endpoint
        self._settings = settings
        self._path = path_of(endpoint.address)
        self._rules: SessionRules = rules_of(endpoint, settings.step_timeout_s)
        self._stopping = threading.Event()
        self._connection: PipeConnection | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: Host) -> Endpoint:
        """Raises Unimplemented for an engine without worlds: it has no experiment to play."""
        worlds, engine = host.engine.worlds, host.spec.engine
        if worlds is None:
            raise Unimplemented(
                f"engine {engine!r} has no worlds to play experiments in",
                backend=BACKEND,
                hint="serve it at shm://, or serve cartpole here",
            )
        experiments = Experiments(worlds, engine)
        thread = threading.Thread(target=self._run, args=(experiments,), name=f"pipe {self._path}", daemon=True)
        with contextlib.ExitStack() as undo:
            self._changes = FileWatch()
            undo.callback(self.stop)  # the start may be interrupted once the thread runs
            self._thread = thread
            start_thread(thread)
            undo.pop_all()
        return self._endpoint

    def _run(self, experiments: Experiments) -> None:
        deadline = None if self._connect_timeout_s is None else Deadline(self._connect_timeout_s)
        try:
            while not self._stopping.is_set():
                self._serve_next(experiments)
                if deadline is not None and (self.clients or deadline.expired):
                    break
                self._changes.add(Path(self._path).parent)
                if os.path.lexists(self._path):
                    self._stopping.wait(_RETRY_S)
                else:
                    self._changes.wait()
        finally:
            self._on_end()

    def _serve_next(self, experiments: Experiments) -> None:
        """Serve the client that offers the pipe, if there is one, until it has gone."""
        try:
            connection = _try_connect(self._path)
            if connection is None:
                return
            try:
                self._hold(connection)
                self.clients += 1
                LineService(experiments, self._rules, connection, self._settings.step_timeout_s).serve()
            finally:
                self._hold(None)
                connection.close()
                _remove_left_over(self._path)
        except (PeerDied, ClosedError) as error:
            _log.debug("pipe %s: %s", self._path, error)
        except (TransportError, OSError) as error:
            _log.warning("pipe %s: %s; the connection is dropped", self._path, error)
        except BaseException:
            _log.exception("the engine's end of pipe %s broke; the connection is dropped", self._path)

    def _hold(self, connection: PipeConnection | None) -> None:
        """Note what `stop` has to close."""
        self._connection = connection
        if self._stopping.is_set():
            self._end_connection()

    def _end_connection(self) -> None:
        if (connection := self._connection) is not None:
            connection.close()

    def stop(self, grace_s: float = 1.0) -> None:
        self._stopping.set()
        self._end_connection()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._changes.end()
        if thread.is_alive():
            thread.join(grace_s + _CLOSING_S)
        if not thread.is_alive():
            self._changes.close()


def _try_connect(path: str) -> PipeConnection | None:
    """Return a connection to the client that offers the pipe at `path`, None while there is none.

    Raises RemoteProtocolError when another user's process offers it, OSError for a place that cannot be used at all.
    """
    if not os.path.lexists(path):
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        connection.connect(path)
        with contextlib.closing(peer_of(connection)) as peer:
            return PipeConnection(connection, f"pipe client of {peer.name}")
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
        connection.close()
        if isinstance(error, ConnectionRefusedError):
            _remove_left_over(path)
        return None
    except BaseException:
        connection.close()
        raise


def _remove_left_over(path: str) -> None:
    """Remove the socket and the lock file of a client that was killed; a living one's are never touched."""
    lock = lock_path(path)
    if not os.path.exists(lock):
        return
    with contextlib.suppress(OSError):
        held = lockfile.acquire(lock, lockfile.CLIENT)
        if held is None:
            return
        try:
            remove_unused_socket(path)
        finally:
            held.release(unlink=True)
