"""Records instead of lines over the same socket: what carries calls, streams and whole frames between our own halves.

    [length: u32, little-endian][record] ...

It is an extension that a client asks for (`run lucky_transport.calls`); an engine that is not ours refuses it as an
unknown experiment.

It keeps `lucky_transport.rpc.pipe.Pipe` to the letter; a record is taken whole or not at all. What the socket did not
take of a record is kept, and leaves with whatever this side does next: it counts as no room until then. What the peer
wrote before it left is still read; only then its end is an error. No thread waits for the lock of the sending side, so
a finalizer may push in the middle of anything.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from typing import Any

from lucky_transport.codec.envelope import ItemRun, Popped, decode_compact, encode_compact
from lucky_transport.errors import ClosedError, RemoteProtocolError, SpecError
from lucky_transport.fork import on_child
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.usage_guard import UsageGuard
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.duplex import SocketDuplex, peer_gone

__all__ = ["LARGEST_RECORD", "RecordPipe"]

#: Longer messages go in fragments.
LARGEST_RECORD = 1 << 20
_LENGTH = struct.Struct("<I")
_CHUNK_BYTES = 1 << 18
_BUFFER_BYTES = 1 << 20
_LONGEST_SLEEP_MS = 10_000.0


class RecordPipe:
    """One end; a `calls.pipe.Pipe`. It takes the connection over from `duplex`, which is closed with it."""

    def __init__(self, duplex: SocketDuplex) -> None:
        self.peer = duplex.peer
        self.largest_record = LARGEST_RECORD
        self._duplex = duplex
        self._socket = duplex.socket
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._bell = EventFd()
        self._arrived = bytearray()
        self._at = 0  # of `_arrived`, handed out so far
        self._unsent = b""
        self._sending = threading.Lock()
        self._ended = False
        self._interrupted = False
        self._gate = UsageGuard(f"the pipe to {duplex.peer}", BACKEND)
        self._epoll = select.epoll()
        self._epoll.register(self._bell.fd, select.EPOLLIN)
        self._epoll.register(self._socket, select.EPOLLIN)
        self._watches_room = False
        on_child(self.close_after_fork)

    # -- sending ------------------------------------------------------------------------------------------------------

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        """See `Pipe.try_push`."""
        if not 0 < len(record) <= LARGEST_RECORD:
            raise SpecError(f"a record of {len(record)} bytes, expected 1 to {LARGEST_RECORD}", backend=BACKEND)
        with self._gate:
            if not self._sending.acquire(blocking=False):
                return False
            try:
                if self._unsent and not self._send_kept():
                    return False
                self._unsent = b"".join((_LENGTH.pack(len(record)), record))
                if not self._send_kept():
                    self._bell.notify()  # the waiting thread has to send the rest
                return True
            finally:
                self._sending.release()

    def push(self, kind: int, correlation_id: int, payload: bytes, /, *fields: Any) -> bool:
        """See `Pipe.push`."""
        return self.try_push(encode_compact(kind, correlation_id, payload, *fields))

    def _send_rest(self) -> bool:
        """Send what is left of the last record, unless another thread is about to; True when nothing is left."""
        if self._sending.acquire(blocking=False):
            try:
                return self._send_kept()
            finally:
                self._sending.release()
        return not self._unsent

    def _send_kept(self) -> bool:
        """Send what is kept as far as there is room; True when nothing is left. The lock is held."""
        if self._unsent:
            self._unsent = self._unsent[self._write(self._unsent) :]
        return not self._unsent

    def _write(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if self._gate.closed:
                raise self._gate.error() from error
            raise peer_gone(self.peer) from error

    def wait_writable(self, length: int, timeout_ns: int) -> bool:
        """See `Pipe.wait_writable`."""
        until_ns = time.monotonic_ns() + timeout_ns
        with self._gate:
            poller = select.poll()
            poller.register(self._socket, select.POLLOUT)
            while self._unsent and not self._send_rest():
                left_ns = until_ns - time.monotonic_ns()
                if left_ns <= 0:
                    return False
                poller.poll(left_ns / 1e6)
                if self._gate.closed:
                    raise self._gate.error()
            return True

    # -- receiving ----------------------------------------------------------------------------------------------------

    def try_pop(self) -> bytes | None:
        """Return the oldest record from the peer, None when there is none. Raises RemoteProtocolError, ClosedError."""
        if self._gate.closed:
            raise self._gate.error()
        record = self._next()
        if record is None:
            with self._gate:
                self._read()
            record = self._next()
        return record

    def pop_batch(self, limit: int, /) -> Popped | ItemRun | None:
        """See `Pipe.pop_batch`; one record at a time."""
        record = self.try_pop()
        return None if record is None else decode_compact(record)

    def _next(self) -> bytes | None:
        """Return the oldest whole record that has arrived."""
        arrived, at = self._arrived, self._at
        if len(arrived) - at < _LENGTH.size:
            return None
        length: int = _LENGTH.unpack_from(arrived, at)[0]
        if not 0 < length <= LARGEST_RECORD:
            raise RemoteProtocolError(
                f"{self.peer} sent a record of {length} bytes, expected 1 to {LARGEST_RECORD}", backend=BACKEND
            )
        start = at + _LENGTH.size
        if len(arrived) - start < length:
            return None
        record = bytes(memoryview(arrived)[start : start + length])
        self._at = start + length
        if self._at == len(arrived):
            arrived.clear()
            self._at = 0
        return record

    def _read(self) -> None:
        """Take in what is there; afterwards `_ended` says whether more can come."""
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._ended = not data
        if self._at:
            del self._arrived[: self._at]
            self._at = 0
        self._arrived += data

    def _has_record(self) -> bool:
        """True when `_next` has a record to return, or a length to complain of."""
        whole = len(self._arrived) - self._at - _LENGTH.size
        if whole < 0:
            return False
        length: int = _LENGTH.unpack_from(self._arrived, self._at)[0]
        return length <= whole or length > LARGEST_RECORD

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        """See `Pipe.wait`."""
        until_ns = time.monotonic_ns() + timeout_ns
        with self._gate:
            while not self._look():
                if self._interrupted:
                    self._interrupted = False
                    return False
                left_ms = min(_LONGEST_SLEEP_MS, (until_ns - time.monotonic_ns()) / 1e6)
                if self._unsent:
                    self._send_rest()
                if left_ms <= 0:
                    return False
                self._watch_room(bool(self._unsent))
                self._epoll.poll(left_ms / 1e3)
                self._bell.consume()
            return True

    def _look(self) -> bool:
        """True when there is a record to pop. Raises PeerDied, ClosedError."""
        if self._gate.closed:
            raise self._gate.error()
        if self._has_record():
            return True
        self._read()
        if self._has_record():
            return True
        if self._gate.closed:
            raise self._gate.error()
        if self._ended:
            raise peer_gone(self.peer)
        return False

    def _watch_room(self, wanted: bool) -> None:
        if wanted != self._watches_room:
            self._watches_room = wanted
            self._epoll.modify(self._socket, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    # -- for event loops, and the end ---------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """See `Pipe.interrupt`."""
        self._interrupted = True
        with contextlib.suppress(ClosedError), self._gate:
            self._bell.notify()

    def fileno(self) -> int:
        """See `Pipe.fileno`; the same descriptor until `close`. Raises ClosedError."""
        with self._gate:
            return self._epoll.fileno()

    def arm(self) -> bool:
        """See `Pipe.arm`."""
        with self._gate:
            self._bell.consume()
            if self._unsent:
                self._send_rest()
            self._watch_room(bool(self._unsent))
            return self._look()

    def close(self) -> None:
        """See `Pipe.close`."""
        with contextlib.suppress(ClosedError), self._gate:
            if self._gate.close(self._let_go):
                self._bell.notify()
                with contextlib.suppress(OSError):  # the peer may have gone before
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything; the connection is the parent's and stays as it is."""
        if self._gate.close_after_fork():
            self._epoll.close()
            self._bell.close()
            with contextlib.suppress(OSError):  # the duplex may have closed its copy before
                os.close(self._socket.detach())

    def _let_go(self) -> None:
        self._epoll.close()
        self._bell.close()
        self._duplex.close()
