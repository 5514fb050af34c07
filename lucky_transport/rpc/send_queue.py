"""The sending side of a pipe: responses and cancels first, stream items when there is free space.

An envelope leaves in one record, or cut into fragments where no record of its length can be pushed. The fragments of
one call come in order; those of several calls may be mixed, so that a long message delays no other. How long a record
may be is asked each time: it depends on the memory that there is.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable

from lucky_transport.codec.envelope import (
    COMPACT_BYTES,
    IMAGE_BYTES,
    CompactFields,
    Envelope,
    ImageFields,
    Kind,
    Record,
    encode_compact,
    encode_envelope,
    encode_record,
    joined,
)
from lucky_transport.deadline import Deadline
from lucky_transport.errors import SpecError, TransportError
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.uninterrupted import uninterrupted

_log = logging.getLogger("lucky_transport")
#: A wait for free space checks this often whether it is still wanted.
_SLICE_NS = 20_000_000
#: With more pending bytes than this, the server stops reading requests.
CONGESTED_BYTES = 1 << 20
#: Bytes that a fragment's own envelope takes at most: those of the largest numbers, and the payload's alignment.
_LARGEST_FRAGMENT = Envelope(
    correlation_id=2**64 - 1, kind=Kind.FRAGMENT, window=2**32 - 1, offset=2**64 - 1, total=2**64 - 1
)
_LARGEST_FRAGMENT.payload = b"\0"
_FRAGMENT_OVERHEAD = len(encode_envelope(_LARGEST_FRAGMENT)) + 8


class Outgoing:
    """An envelope, as its record or as the fields of a compact or image one, that leaves through a pipe.

    call: its number. message_bytes: length of the message in it, so that the receiver need not guess when it is too
    long. length: of its record.
    """

    __slots__ = ("_call", "_fields", "_message_bytes", "_offset", "_record", "length")

    def __init__(self, envelope: Record | CompactFields, call: int = 0, message_bytes: int = 0) -> None:
        self._call, self._message_bytes = call, message_bytes
        self._offset = 0
        self._record: Record = b""
        self._fields: CompactFields | None = None
        if isinstance(envelope, tuple):
            self._fields = envelope
            self.length = (COMPACT_BYTES if envelope[6] is None else IMAGE_BYTES) + len(envelope[2])
        else:
            self._record = envelope
            self.length = len(envelope) if isinstance(envelope, bytes) else sum(map(len, envelope))

    def push(self, pipe: Pipe) -> int:
        """Push what is left, as far as there is free space; return the bytes that have no place yet, 0 when all left.

        Raises SpecError when the pipe's records leave no room for a fragment, and as `Pipe.try_push`.
        """
        while self._offset < self.length:
            largest = pipe.largest_record
            if not self._offset and self.length <= largest:
                pushed = length = self.length
                if self._fields is not None:
                    [is_sent] = map(pipe.push, *zip(self._fields))  # as `uninterrupted`
                else:
                    [is_sent] = map(pipe.try_push, (self._record,), (self._call,), (self._message_bytes,))
            else:
                if self._fields is not None:
                    self._record, self._fields = encode_compact(*self._fields), None
                self._record = joined(self._record)
                piece, pushed = fragment(self._record, self._call, self._offset, largest, self._message_bytes)
                length = len(piece) if isinstance(piece, bytes) else sum(map(len, piece))
                [is_sent] = map(pipe.try_push, (piece,), (self._call,))
            if is_sent:
                self._offset += pushed
            elif length <= pipe.largest_record:
                return length
        return 0


def fragment(record: bytes, call: int, offset: int, largest: int, message_bytes: int) -> tuple[Record, int]:
    """Return the fragment with what comes at `offset` of the record, `largest` bytes at most, and how much that is.

    Raises SpecError when `largest` leaves no room for anything.
    """
    if largest <= _FRAGMENT_OVERHEAD:
        raise SpecError(f"records of {largest} bytes are too short for fragments", hint="make the rings larger")
    payload = record[offset : offset + largest - _FRAGMENT_OVERHEAD]
    envelope = Envelope(
        correlation_id=call,
        kind=Kind.FRAGMENT,
        payload=payload,
        window=min(message_bytes, 2**32 - 1),
        offset=offset,
        total=len(record),
    )
    return encode_record(envelope), len(payload)


class SendQueue:
    """The sending side of `pipe`, for all threads.

    A record that finds no free space stays pending, and everything posted or sent later waits behind it. Pending
    records are sent by the next sender, or by a thread that exists only while there are any. while_full: called while a
    sender waits; it reads meanwhile. pending_bytes: how much is pending.
    """

    def __init__(self, pipe: Pipe, while_full: Callable[[], None] | None = None) -> None:
        self._pipe = pipe
        self._largest_payload = pipe.largest_record - COMPACT_BYTES
        self._largest_with_image = pipe.largest_record - IMAGE_BYTES
        self._while_full = while_full
        self._lock = threading.Lock()
        self._free_space = threading.Lock()
        self._pending: deque[Outgoing] = deque()
        self.pending_bytes = 0
        self._from_finalizers: deque[bytes] = deque()
        self._sender: int | None = None
        self._closed = False

    def push(
        self,
        kind: int,
        correlation_id: int,
        payload: bytes,
        method: int = 0,
        deadline_ns: int = 0,
        dropped: int = 0,
        image: ImageFields | None = None,
    ) -> bool:
        """Send a compact or image envelope if it fits into one record and there is free space for it now.

        Returns False, with nothing sent, otherwise. Raises RemoteProtocolError, PeerDied, ClosedError.
        """
        if self._from_finalizers or len(payload) > (
            self._largest_payload if image is None else self._largest_with_image
        ):
            return False
        with self._lock:
            return not self._pending and self._pipe.push(
                kind, correlation_id, payload, method, deadline_ns, dropped, image
            )

    def post(self, envelope: Record | CompactFields, correlation_id: int = 0, message_bytes: int = 0) -> None:
        """Send an envelope now or as soon as there is free space; never blocks. See `Outgoing`.

        Raises RemoteProtocolError, PeerDied, ClosedError.
        """
        outgoing = Outgoing(envelope, correlation_id, message_bytes)
        with self._lock:
            self.pending_bytes += outgoing.length
            self._pending.append(outgoing)
            self._flush_or_start_sender()
        if self._from_finalizers:
            self._post_from_finalizers()

    def send(
        self,
        envelope: Record | CompactFields,
        correlation_id: int,
        message_bytes: int,
        deadline: Deadline | None,
        is_over: Callable[[], bool],
    ) -> bool:
        """Send an envelope, waiting for free space until `deadline` or until `is_over()`.

        Returns False when it was not sent; of one that is cut into fragments, some may be. No lock is held while it
        waits, so that it delays no response.

        Raises RemoteProtocolError, PeerDied, ClosedError.
        """
        outgoing = Outgoing(envelope, correlation_id, message_bytes)
        while True:
            with self._lock:
                length = self._flush() or outgoing.push(self._pipe)
            if self._from_finalizers:
                self._post_from_finalizers()
            if not length:
                return True
            if is_over() or (deadline is not None and deadline.expired):
                return False
            if self._while_full is not None:
                self._while_full()
            self._wait_writable(length, _SLICE_NS if deadline is None else min(_SLICE_NS, deadline.remaining_ns))

    def post_from_finalizer(self, record: bytes) -> None:
        """Send a record from a finalizer, which may interrupt anything this thread does: it takes no lock that is held.

        Raises nothing: what cannot be sent any more need not be.
        """
        self._from_finalizers.append(record)
        with contextlib.suppress(TransportError, RuntimeError):  # no thread can be started: the next sender sends it
            self._post_from_finalizers()

    def _post_from_finalizers(self) -> None:
        """Send them, unless a thread holds the lock: it sends them when it is done."""
        held = True
        while self._from_finalizers and held:
            held = False
            try:
                [held] = uninterrupted(self._lock.acquire, False)
                while held and self._from_finalizers:
                    outgoing = Outgoing(self._from_finalizers[0])
                    del self._from_finalizers[0]  # no signal handler runs between this and the append
                    self.pending_bytes += outgoing.length
                    self._pending.append(outgoing)
                if held:
                    self._flush_or_start_sender()
            finally:
                if held:
                    self._lock.release()

    def close(self) -> None:
        """Drop what is pending and let its thread end; idempotent."""
        self._closed = True
        with self._lock:
            self._pending.clear()
            self.pending_bytes = 0

    def _flush_or_start_sender(self) -> None:
        """Send what is pending; a thread sends what has no place yet. The lock is held."""
        if self._flush() and self._sender is None and not self._closed:
            # `threading.Thread` takes a lock which the caller may hold, where this is a finalizer
            self._sender = _thread.start_new_thread(self._send_pending, ())

    def _flush(self) -> int:
        """Send what is pending as far as there is free space; return the bytes that have no place yet, 0 for none. The
        lock is held.
        """
        pending = self._pending
        while pending:
            if length := pending[0].push(self._pipe):
                return length
            self.pending_bytes -= pending[0].length
            del pending[0]
        return 0

    def _wait_writable(self, length: int, timeout_ns: int) -> None:
        held = False
        try:
            [held] = uninterrupted(self._free_space.acquire, True, timeout_ns / 1e9)
            if held:  # one thread at a time may wait on the pipe
                self._pipe.wait_writable(length, timeout_ns)
        finally:
            if held:
                self._free_space.release()

    def _send_pending(self) -> None:
        try:
            while not self._closed:
                with self._lock:
                    length = self._flush()
                    if not length:
                        self._sender = None
                        return
                self._wait_writable(length, _SLICE_NS)
        except TransportError as error:  # the peer is gone; the thread that reads from it finds out as well
            _log.debug("records pending for %s are dropped: %s", self._pipe.peer, error)
            self.close()
        finally:
            self._sender = None
