"""Where all records of one side leave: answers and cancels first, stream items when there is room.

Rule 1: `post` never blocks. What finds no room is kept in order and sent as soon as there is some; everything that is
        posted or sent later waits behind it.
Rule 2: `send` waits for room under its deadline, and holds no lock while it waits; so it holds no answer back.
Rule 3: what is kept is sent by whoever comes next, or by a thread that exists only as long as something is kept.
Rule 4: `post_late` may be called from a finalizer, in the middle of anything this very thread does; it takes no lock
        that somebody holds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from lucky_transport.codec.compact import COMPACT_BYTES, IMAGE_BYTES, ImageFields
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.pipe import Pipe

__all__ = ["CONGESTED_BYTES", "Outlet"]

_log = logging.getLogger("lucky_transport")
#: A wait for room looks this often whether it is still wanted.
_SLICE_NS = 20_000_000
#: With more bytes than this kept, whoever makes us answer should pause.
CONGESTED_BYTES = 1 << 20


class Outlet:
    """The sending side of `pipe`, for all threads. `while_full` is called while a sender waits: read meanwhile.

    kept_bytes: how much is kept until there is room.
    """

    def __init__(self, pipe: Pipe, while_full: Callable[[], None] | None = None) -> None:
        self._pipe = pipe
        self._largest = pipe.largest_record
        self._largest_payload = self._largest - COMPACT_BYTES
        self._largest_with_image = self._largest - IMAGE_BYTES
        self._while_full = while_full
        self._lock = threading.Lock()
        self._room = threading.Lock()
        self._kept: deque[bytes] = deque()
        self.kept_bytes = 0
        self._late: deque[bytes] = deque()
        self._sender: threading.Thread | None = None
        self._closed = False

    def post(self, records: Iterable[bytes]) -> None:
        """Send the records now, or keep them until there is room. Raises RemoteProtocolError, PeerDied, ClosedError."""
        with self._lock:
            for record in records:
                if (self._kept and not self._flush()) or not self._pipe.try_push(record):
                    self._kept.append(record)
                    self.kept_bytes += len(record)
            if self._kept and self._sender is None and not self._closed:
                self._sender = threading.Thread(target=self._send_kept, name="outlet", daemon=True)
                self._sender.start()
        if self._late:
            self._post_what_came_late()

    def post_one(self, record: bytes) -> None:
        """As `post`, for a single short record: the fast way."""
        with self._lock:
            sent = not self._kept and self._pipe.try_push(record)
        if not sent:
            self.post((record,))
        elif self._late:
            self._post_what_came_late()

    def try_post(
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
        if self._late or len(payload) > (self._largest_payload if image is None else self._largest_with_image):
            return False
        with self._lock:
            return not self._kept and self._pipe.push(
                kind, correlation_id, payload, method, deadline_ns, dropped, image
            )

    def post_late(self, record: bytes) -> None:
        """As `post`, for finalizers; raises nothing: what cannot be sent any more need not be."""
        self._late.append(record)
        with contextlib.suppress(TransportError):
            self._post_what_came_late()

    def _post_what_came_late(self) -> None:
        """Send it, unless somebody holds the lock: he does it when he is done."""
        while self._late and self._lock.acquire(blocking=False):
            try:
                while self._late:
                    record = self._late.popleft()
                    if self._kept or not self._pipe.try_push(record):
                        self._kept.append(record)
                        self.kept_bytes += len(record)
            finally:
                self._lock.release()

    def try_send(self, record: bytes) -> bool:
        """Send the record if it fits into one piece and there is room for it now; False when it was not sent.

        Raises RemoteProtocolError, PeerDied, ClosedError.
        """
        if len(record) > self._largest or self._late:
            return False
        with self._lock:
            return not self._kept and self._pipe.try_push(record)

    def send(self, record: bytes, deadline: Deadline | None, is_over: Callable[[], bool]) -> bool:
        """Send the record, waiting for room until `deadline` or until `is_over()`; False when it was not sent.

        Raises RemoteProtocolError, PeerDied, ClosedError.
        """
        while True:
            with self._lock:
                sent = (not self._kept or self._flush()) and self._pipe.try_push(record)
            if self._late:
                self._post_what_came_late()
            if sent:
                return True
            if is_over() or (deadline is not None and deadline.expired):
                return False
            if self._while_full is not None:
                self._while_full()
            self._wait_writable(len(record), _SLICE_NS if deadline is None else min(_SLICE_NS, deadline.remaining_ns))

    def close(self) -> None:
        """Forget what is kept and let its thread end; idempotent."""
        self._closed = True
        with self._lock:
            self._kept.clear()
            self.kept_bytes = 0

    def _flush(self) -> bool:
        """Send what is kept as far as there is room; True when nothing is left. The lock is held."""
        kept = self._kept
        while kept:
            if not self._pipe.try_push(kept[0]):
                return False
            self.kept_bytes -= len(kept.popleft())
        return True

    def _wait_writable(self, length: int, timeout_ns: int) -> None:
        if self._room.acquire(timeout=timeout_ns / 1e9):  # one thread at a time may wait on the pipe
            try:
                self._pipe.wait_writable(length, timeout_ns)
            finally:
                self._room.release()

    def _send_kept(self) -> None:
        try:
            while not self._closed:
                with self._lock:
                    if self._flush():
                        self._sender = None
                        return
                    length = len(self._kept[0])
                self._wait_writable(length, _SLICE_NS)
        except TransportError as error:  # the peer is gone; whoever reads from it finds out by himself
            _log.debug("what was kept for %s is dropped: %s", self._pipe.peer, error)
            self.close()
        finally:
            self._sender = None
