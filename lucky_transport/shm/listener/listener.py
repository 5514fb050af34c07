"""The socket where up to `MAX_CLIENTS` clients of this user each get a pipe.

    with Listener("lucky_demo") as listener:
        for pipe in listener.advance(): ...       whenever its descriptor is readable, or `patience_ns` is over

A misbehaving client loses only its own connection. A lock file tells the socket of a living engine from a dead one's,
which is replaced. Nothing here blocks, and `close` leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import stat
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from lucky_transport.closing import Closing
from lucky_transport.config import runtime_directories
from lucky_transport.errors import Busy, NoSpace, NotReachable, RemoteProtocolError, SegmentError, TransportError
from lucky_transport.fork import on_child
from lucky_transport.limits import within_limits
from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.files import server_description
from lucky_transport.shm.files.liveness import peer_of, pid_name
from lucky_transport.shm.files.server_description import ServerDescription
from lucky_transport.shm.files.socket_path import claim_socket, private_directory
from lucky_transport.shm.listener.handshake import CLIENT_HELLO_BYTES, VERSION, ClientHello, ServerHello, make_pair
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe, PipeResources
from lucky_transport.shm.ring import DEFAULT_RING_BYTES
from lucky_transport.shm.timing import ACCEPT_PAUSE_S, HANDSHAKE_S
from lucky_transport.shm.usage_guard import UsageGuard

__all__ = ["HANDSHAKE_S", "MAX_CLIENTS", "Listener"]

_log = logging.getLogger("lucky_transport")

#: Pipes that may be open at once: each has four descriptors here and the memory of its rings.
MAX_CLIENTS = 1024
_MAX_SILENT = 32
#: Clients that wait to be accepted, and those that are at a time.
_BACKLOG, _AT_A_TIME = 1024, 64


class Listener(Closing):
    """Listens for clients of segment `name`. `max_clients`: pipes that may be open at once. `arena_bytes`: of each
    direction, for messages that are too long for its ring.

    group: of listeners that share the name; clients take any of them. Without one the name is this listener's alone.

    Raises Busy when a living engine listens there, SegmentError when the path is no socket of ours, ConfigError for a
    directory that is not private.
    """

    def __init__(
        self,
        name: str,
        *,
        directory: Path | None = None,
        group: str = "",
        ring_bytes: int = DEFAULT_RING_BYTES,
        arena_bytes: int = DEFAULT_ARENA_BYTES,
        max_clients: int = MAX_CLIENTS,
        strategy: int = 1,
        hello_timeout_s: float = HANDSHAKE_S,
    ) -> None:
        self.path, self._lock = claim_socket(private_directory(directory or runtime_directories()[0]), name, group)
        self.strategy = strategy
        self._ring_bytes, self._arena_bytes = ring_bytes, arena_bytes
        self._max_clients, self._hello_timeout_s = max_clients, hello_timeout_s
        self._guard = UsageGuard(f"the listener at {self.path}")
        self._silent: dict[int, tuple[socket.socket, float]] = {}
        self._pipes: weakref.WeakSet[MemfdPipe] = weakref.WeakSet()
        self._resume_at = 0.0
        self._is_relay = False
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release, unlink=True)
            self._remove_left_over()
            undo.callback(self.path.unlink, missing_ok=True)
            kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
            self._listener = undo.enter_context(socket.socket(socket.AF_UNIX, kind))
            self._listener.bind(str(self.path))
            self.path.chmod(0o600)
            self._listener.listen(_BACKLOG)
            self._epoll = undo.enter_context(select.epoll())
            self._epoll.register(self._listener.fileno(), select.EPOLLIN)
            undo.pop_all()
        on_child(self.close_after_fork)

    def _remove_left_over(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise SegmentError(f"{self.path} exists and is no socket", backend="shm", hint="use another name")
            self.path.unlink()
        server_description.forget(self.path)

    def describe(self, description: ServerDescription) -> None:
        """Say, to clients and to whom looks at this host, what listens here; a file that fails is only logged."""
        self._is_relay = description.is_relay
        try:
            server_description.describe(self.path, description._asdict())
        except (OSError, TransportError) as error:
            _log.info("the server at %s is not listed: %s", self.path, error)

    def fileno(self) -> int:
        """Return the descriptor that is readable while `advance` has something to do."""
        return self._epoll.fileno()

    @property
    def patience_ns(self) -> int | None:
        """Nanoseconds until `advance` has to be called all the same; None when it need not."""
        if not self._silent and not self._resume_at:
            return None
        times = [until for _, until in self._silent.values()]
        if self._resume_at:
            times.append(self._resume_at)
        return max(0, int((min(times) - time.monotonic()) * 1e9))

    @property
    def clients(self) -> int:
        """Pipes that are open."""
        return sum(not pipe.closed for pipe in self._pipes)

    def advance(self) -> list[MemfdPipe]:
        """Accept clients, answer their hellos, drop those that are late; return the new pipes. Never waits."""
        pipes: list[MemfdPipe] = []
        with self._guard:
            if self._resume_at and time.monotonic() >= self._resume_at:
                self._resume_at = 0.0
                self._epoll.register(self._listener.fileno(), select.EPOLLIN)
            for fd, _ in self._epoll.poll(0):
                if fd == self._listener.fileno():
                    self._accept(pipes)
                else:
                    pipes.extend(self._hear(fd))
            self._drop_late()
        return pipes

    def _make_room(self) -> Iterator[MemfdPipe]:
        """Hear the client that has been silent longest, yield its pipe; drop it where it has still said nothing."""
        oldest = next(iter(self._silent))
        yield from self._hear(oldest)
        if oldest in self._silent:
            self._drop(oldest, "too many clients without a hello")

    def _accept(self, pipes: list[MemfdPipe]) -> None:
        """Take clients from the queue; `pipes` gets those of clients that have said their hello already: most have."""
        for _ in range(_AT_A_TIME):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no descriptors or no memory: the client waits in the queue
                _log.warning("the listener at %s cannot take a client now: %s", self.path, error)
                self._epoll.unregister(self._listener.fileno())
                self._resume_at = time.monotonic() + ACCEPT_PAUSE_S
                return
            connection.setblocking(False)
            if (pipe := self._shake_hands(connection)) is not None:
                pipes.append(pipe)
            elif connection.fileno() >= 0:
                if len(self._silent) >= _MAX_SILENT:
                    pipes.extend(self._make_room())
                self._silent[connection.fileno()] = (connection, time.monotonic() + self._hello_timeout_s)
                self._epoll.register(connection.fileno(), select.EPOLLIN)

    def _hear(self, fd: int) -> Iterator[MemfdPipe]:
        """Yield the pipe of a client that has been silent until now; none for one that still is, or is dropped."""
        if fd not in self._silent:  # dropped for a newer one meanwhile
            return
        connection, until = self._silent.pop(fd)
        self._epoll.unregister(fd)
        if (pipe := self._shake_hands(connection)) is not None:
            yield pipe
        elif connection.fileno() >= 0:
            self._silent[fd] = (connection, until)
            self._epoll.register(fd, select.EPOLLIN)

    def _shake_hands(self, connection: socket.socket) -> MemfdPipe | None:
        """Read one client's hello and answer it; None for one that is silent, and for one that does anything else: its
        connection is closed.
        """
        try:
            hello = ClientHello.of(connection.recv(CLIENT_HELLO_BYTES + 1))
            pipe = self._admit(connection, hello)
        except BlockingIOError:
            return None
        except (OSError, TransportError) as error:
            self._close(connection, str(error))
            return None
        self._pipes.add(pipe)
        return pipe

    def _admit(self, connection: socket.socket, hello: ClientHello) -> MemfdPipe:
        """Send the client its rings, or why it gets none; raises the error in that case."""
        try:
            with within_limits(f"{self.path} takes no client", "shm"):
                return self._make_pipe(connection, hello)
        except (NotReachable, NoSpace) as error:
            raise _tell(connection, error) from error.__cause__

    def _make_pipe(self, connection: socket.socket, hello: ClientHello) -> MemfdPipe:
        with contextlib.ExitStack() as undo:
            peer = peer_of(connection)
            undo.callback(peer.close)
            self._check(connection, hello)
            arena_bytes = self._arena_bytes if hello.arenas else 0
            pair, memory = make_pair(self._ring_bytes, arena_bytes)
            undo.callback(os.close, memory)
            interrupts = undo.enter_context(EventFd())
            answer = ServerHello(0, self._ring_bytes, arena_bytes=arena_bytes, is_relay=self._is_relay)
            socket.send_fds(connection, [answer.to_bytes()], [memory])  # last of what may fail
            parts = PipeResources(interrupts, connection, peer)
            name = f"shm client of {pid_name(peer.pid)}"
            pipe = MemfdPipe(pair, parts, name, engine=True, strategy=self.strategy)
            undo.pop_all()  # all but the memory is the pipe's now
            os.close(memory)
            return pipe

    def _check(self, connection: socket.socket, hello: ClientHello) -> None:
        """Raise, and tell the client, why it cannot have a pipe."""
        if hello.version != VERSION:
            text = f"the client speaks version {hello.version} of the handshake, the engine {VERSION}"
            hint = "install the same version on both sides"
            raise _tell(connection, RemoteProtocolError(text, backend="shm", hint=hint))
        if self.clients >= self._max_clients:
            text = f"{self.path} has {self._max_clients} clients already"
            raise _tell(connection, Busy(text, backend="shm", hint="close one"))

    def _drop_late(self) -> None:
        now = time.monotonic()
        for fd in [fd for fd, (_, until) in self._silent.items() if now >= until]:
            self._drop(fd, f"no hello within {self._hello_timeout_s} s")

    def _drop(self, fd: int, why: str) -> None:
        connection, _ = self._silent.pop(fd)
        self._epoll.unregister(fd)
        self._close(connection, why)

    def _close(self, connection: socket.socket, why: str) -> None:
        _log.debug("a client at %s was dropped: %s", self.path, why)
        connection.close()

    def close(self) -> None:
        """Listen no more and remove the socket; the pipes stay as they are. Idempotent."""
        with contextlib.suppress(OSError):
            if not self._guard.closed:
                server_description.forget(self.path)
                self.path.unlink()
        if self._guard.close(self._let_go):
            self._lock.release(unlink=True)

    def close_after_fork(self) -> None:
        """In a forked child: let go of the copies; the socket stays the parent's."""
        if self._guard.close_after_fork():
            self._let_go()

    def _let_go(self) -> None:
        self._epoll.close()
        self._listener.close()
        for connection, _ in self._silent.values():
            connection.close()
        self._silent.clear()


def _tell(connection: socket.socket, error: TransportError) -> TransportError:
    """Send the client `error` in place of a pipe, and return it."""
    connection.send(ServerHello(error.wire_code, 0, str(error)).to_bytes())
    return error
