"""The sending side of a pipe: responses and cancels first, stream items when there is free space."""

from __future__ import annotations

import _thread
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable

from lucky_transport.codec.envelope import COMPACT_BYTES, IMAGE_BYTES, CompactFields, ImageFields, Record
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.outgoing import Outgoing
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.uninterrupted import uninterrupted

_log = logging.getLogger("lucky_transport")
#: A wait for free space checks this often whether it is still wanted.
_SLICE_NS = 20_000_000
#: With more pending bytes than this, the server stops reading requests.
CONGESTED_BYTES = 1 << 20


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
