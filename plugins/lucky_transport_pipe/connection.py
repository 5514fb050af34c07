"""Bytes both ways over the unix socket that a .NET pipe is on Linux: `PipeConnection`."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading

from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport.fork import on_child
from lucky_transport.shm.usage_guard import UsageGuard
from lucky_transport_pipe.address import BACKEND

_CHUNK_BYTES = 1 << 18
#: No wait is longer; all that it waits for wakes it.
_LONGEST_MS = 1000
#: For how long a receiver polls before it sleeps; longer than an answer takes, short beside a frame.
_POLL_NS = 150_000


class PipeConnection:
    """One end of a connected unix stream socket, which it owns from now on.

    One thread at a time sends and one at a time receives; any thread may close. peer: who is at the other end, for
    texts.
    """

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.peer = peer
        self.socket = connection
        connection.setblocking(False)
        self._arrived: list[bytes] = []
        self._ended = False
        self._reading = threading.Lock()
        self._guard = UsageGuard(f"the pipe to {peer}", BACKEND)
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self._any = select.poll()
        self._any.register(connection, select.POLLIN | select.POLLOUT)
        on_child(self.close_after_fork)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`. Raises PeerTimeout, PeerDied, ClosedError."""
        with self._guard:
            sent = self._write(data)
            while sent < len(data):
                if deadline.expired:
                    raise PeerTimeout(
                        f"{self.peer} took {sent} of {len(data)} bytes within {deadline.timeout_s} s",
                        backend=BACKEND,
                        hint="it may hang; restart it",
                    )
                self._read_until_writable(deadline)
                sent += self._write(memoryview(data)[sent:])

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._check_open()
            raise self._peer_died() from error

    def _read_until_writable(self, deadline: Deadline) -> None:
        """Wait until bytes can be sent, and read meanwhile: two ends that both write would else stand still.

        A receiver that waits reads by itself, and holds the lock: bytes that a sender had read would not wake it.
        """
        ready = self._any.poll(min(_LONGEST_MS, deadline.remaining_s * 1000))
        self._check_open()
        events = ready[0][1] if ready else 0
        if not events & ~select.POLLOUT or events & select.POLLOUT or not self._reading.acquire(blocking=False):
            return
        try:
            if chunk := self._read():
                self._arrived.append(chunk)
            elif self._ended:
                raise self._peer_died()
        finally:
            self._reading.release()

    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes from the peer, at least one; its end is an error only once all is read.

        Raises PeerTimeout, PeerDied, ClosedError.
        """
        with self._guard, self._reading:
            self._poll_briefly(deadline)
            while not (data := self._pop()):
                if self._ended:
                    raise self._peer_died()
                if not self._readable.poll(min(_LONGEST_MS, deadline.remaining_s * 1000)) and deadline.expired:
                    raise PeerTimeout(f"{self.peer} sent nothing within {deadline.timeout_s} s", backend=BACKEND)
                self._check_open()
            return data

    def _poll_briefly(self, deadline: Deadline) -> None:
        """Poll for a moment: an answer that is near costs no wake-up."""
        until = monotonic_ns() + min(_POLL_NS, deadline.remaining_ns)
        while not self._arrived and not self._readable.poll(0) and monotonic_ns() < until:
            os.sched_yield()

    def _pop(self) -> bytes:
        if self._arrived:
            arrived, self._arrived = b"".join(self._arrived), []
            return arrived
        return self._read()

    def _read(self) -> bytes:
        """Return what is there, maybe nothing; afterwards `_ended` says whether more can come."""
        try:
            data = self.socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            self._ended = True
            self._check_open()
            return b""
        self._ended = not data
        return data

    def _peer_died(self) -> PeerDied:
        return PeerDied(f"{self.peer} closed the pipe or ended", backend=BACKEND, hint="connect again once it is back")

    def _check_open(self) -> None:
        if self._guard.closed:
            raise self._guard.error()

    def close(self) -> None:
        """Close the pipe and end every wait with ClosedError; the peer notices. Idempotent."""
        with contextlib.suppress(ClosedError), self._guard:
            if self._guard.close(self.socket.close):
                with contextlib.suppress(OSError):  # the peer may have gone before
                    self.socket.shutdown(socket.SHUT_RDWR)

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything; the connection is the parent's and stays as it is."""
        if self._guard.close_after_fork():
            with contextlib.suppress(OSError):  # it may be closed already
                os.close(self.socket.detach())
