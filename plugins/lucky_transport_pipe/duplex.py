"""Bytes both ways over one pipe, the contract, and the unix socket that a .NET pipe is on Linux.

A side that has to wait until its bytes are taken reads meanwhile, so two sides that both write never stand still. Every
wait ends: at its deadline (PeerTimeout), when the peer is gone (PeerDied), when this side is closed, also by another
thread (ClosedError). What the peer wrote before it left is still read; only then its end is an error. Who waits for
bytes looks for a moment before it sleeps: an answer that is near costs no waking up.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from abc import ABC, abstractmethod

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport.fork import on_child
from lucky_transport.shm.usage_guard import UsageGuard
from lucky_transport_pipe.address import BACKEND

__all__ = ["Duplex", "SocketDuplex", "peer_gone"]

_CHUNK_BYTES = 1 << 18
_POLL_SLICE_MS = 50
#: For how long a receiver looks, giving the core away in between; longer than an answer takes, short beside a frame.
_LOOK_NS = 150_000


class Duplex(ABC):
    """One end. One thread at a time sends and one at a time receives; `close` may be called by any.

    peer: who is at the other end, for texts.
    """

    peer: str

    @abstractmethod
    def send(self, data: bytes, deadline: Deadline) -> None:
        """Have the peer get `data`, all of it. Raises PeerTimeout, PeerDied, ClosedError."""

    @abstractmethod
    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes from the peer, at least one. Raises PeerTimeout, PeerDied, ClosedError."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the pipe, and end every wait; the peer notices. Idempotent."""


def peer_gone(peer: str) -> PeerDied:
    """Return the error of a connection whose other end has gone."""
    return PeerDied(f"{peer} closed the pipe or ended", backend=BACKEND, hint="connect again once it is back")


class SocketDuplex(Duplex):
    """A connected unix stream socket, which it owns from now on."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.peer = peer
        self.socket = connection
        connection.setblocking(False)
        self._arrived: list[bytes] = []
        self._ended = False
        self._reading = threading.Lock()
        self._gate = UsageGuard(f"the pipe to {peer}", BACKEND)
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self._any = select.poll()
        self._any.register(connection, select.POLLIN | select.POLLOUT)
        on_child(self.close_after_fork)

    def send(self, data: bytes, deadline: Deadline) -> None:
        with self._gate:
            sent = self._write(data)
            while sent < len(data):
                if deadline.expired:
                    raise PeerTimeout(
                        f"{self.peer} took {sent} of {len(data)} bytes within {deadline.timeout_s} s",
                        backend=BACKEND,
                        hint="it may hang; restart it",
                    )
                self._make_way(deadline)
                sent += self._write(memoryview(data)[sent:])

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._check_open()
            raise peer_gone(self.peer) from error

    def _make_way(self, deadline: Deadline) -> None:
        """Wait until bytes can be sent, and take in what comes meanwhile: the peer may be waiting for that."""
        ready = self._any.poll(min(_POLL_SLICE_MS, deadline.remaining_s * 1000))
        self._check_open()
        events = ready[0][1] if ready else 0
        if events & ~select.POLLOUT and not events & select.POLLOUT and self._reading.acquire(blocking=False):
            try:
                if chunk := self._read():
                    self._arrived.append(chunk)
                elif self._ended:
                    raise peer_gone(self.peer)
            finally:
                self._reading.release()

    def receive(self, deadline: Deadline) -> bytes:
        with self._gate:
            self._look(deadline)
            while not (data := self._take()):
                if self._ended:
                    raise peer_gone(self.peer)
                # in slices: a sender of ours may have taken in what came just before we looked
                if not self._readable.poll(min(_POLL_SLICE_MS, deadline.remaining_s * 1000)) and deadline.expired:
                    raise PeerTimeout(f"{self.peer} sent nothing within {deadline.timeout_s} s", backend=BACKEND)
                self._check_open()
            return data

    def _look(self, deadline: Deadline) -> None:
        """Return when there are bytes, or the end of them, and soon in any case."""
        until = time.monotonic_ns() + min(_LOOK_NS, deadline.remaining_ns)
        while not self._arrived and not self._readable.poll(0) and time.monotonic_ns() < until:
            os.sched_yield()

    def _take(self) -> bytes:
        with self._reading:
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

    def _check_open(self) -> None:
        if self._gate.closed:
            raise self._gate.error()

    def close(self) -> None:
        with contextlib.suppress(ClosedError), self._gate:
            if self._gate.close(self.socket.close):
                with contextlib.suppress(OSError):  # the peer may have gone before
                    self.socket.shutdown(socket.SHUT_RDWR)

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything; the connection is the parent's and stays as it is."""
        if self._gate.close_after_fork():
            with contextlib.suppress(OSError):  # a record pipe may have closed its copy before
                os.close(self.socket.detach())
