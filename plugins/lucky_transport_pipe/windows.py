r"""Bytes both ways over a Windows named pipe, by the standard library alone.

Python's `multiprocessing.connection` makes and opens `\\.\pipe\NAME` in message mode and writes each message as it
is, without a header, which is what a .NET pipe client reads. Written to its documentation and tested with a connection
in memory; it was not run on Windows yet. There is the client's half only: on Windows the engine's half is Unity.

A message boundary means nothing; the reader cuts lines. Pipe buffers are never flushed: FlushFileBuffers
would wait until the peer has read everything.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, NotReachable, PeerTimeout
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.duplex import Duplex, peer_gone

__all__ = ["MessageDuplex", "MessageOffer"]

_LONGEST_SLICE_S = 0.05


class MessageDuplex(Duplex):
    """A connection of `multiprocessing.connection`, which it owns from now on."""

    def __init__(self, connection: Connection[Any, Any], peer: str) -> None:
        self.peer = peer
        self._connection = connection
        self._closed = False

    def send(self, data: bytes, deadline: Deadline) -> None:
        self._check_open()
        try:
            self._connection.send_bytes(data)
        except OSError as error:
            self._check_open()
            raise peer_gone(self.peer) from error

    def receive(self, deadline: Deadline) -> bytes:
        while not (data := self._poll(min(_LONGEST_SLICE_S, deadline.remaining_s))):
            if deadline.expired:
                raise PeerTimeout(f"{self.peer} sent nothing within {deadline.timeout_s} s", backend=BACKEND)
        return data

    def _poll(self, timeout_s: float) -> bytes:
        self._check_open()
        try:
            return self._connection.recv_bytes() if self._connection.poll(timeout_s) else b""
        except (OSError, EOFError) as error:
            self._check_open()
            raise peer_gone(self.peer) from error

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the pipe to {self.peer} is closed", backend=BACKEND, hint="connect again")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()


class MessageOffer:  # pragma: no cover - untested: no Windows here
    """A named pipe on offer until `close`; a `PipeListener`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = Listener(path, "AF_PIPE")

    def accept(self, deadline: Deadline, exit_report: Callable[[], str] = lambda: "") -> Duplex:
        """See `Offer.accept`. The library's own wait has no end, so a thread waits in it."""
        found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=lambda: found.put(self._listener.accept()), name="pipe offer", daemon=True).start()
        while True:
            with contextlib.suppress(queue.Empty):
                return MessageDuplex(found.get(timeout=min(_LONGEST_SLICE_S, deadline.remaining_s)), "the engine")
            if words := exit_report():
                raise NotReachable(f"the engine ended before it came to pipe {self._path}: {words}", backend=BACKEND)
            if deadline.expired:
                raise NotReachable(f"no engine came to {self._path} within {deadline.timeout_s} s", backend=BACKEND)

    def close(self) -> None:
        """Let the next client have the pipe; idempotent."""
        self._listener.close()
