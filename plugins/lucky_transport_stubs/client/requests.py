"""The requests of a call: those that are kept for another attempt, and a stream of them pulled from an iterator."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.uninterrupted import start_thread
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.status import CallStatus, Code, error_of, status_of

if TYPE_CHECKING:
    from lucky_transport_stubs.words.retries import Retries


_log = logging.getLogger("grpc._channel")
_ITERATING = CallStatus(Code.UNKNOWN, "Exception iterating requests!")
_SERIALIZING = CallStatus(Code.INTERNAL, "Exception serializing request!")


class KeptRequests:
    """The payloads of one call, numbered from 0: each attempt sends them from the beginning. Without I/O.

    They are kept until the call is committed to an attempt. An attempt that has to send when there are more than
    `buffer_bytes` in all commits it, as in gRPC. retries: of the call, None where there is one attempt. count: how many
    there have been so far.
    """

    def __init__(self, retries: Retries | None, buffer_bytes: int) -> None:
        self._retries = retries
        self._buffer_bytes = buffer_bytes
        self._kept: deque[bytes] = deque()
        self.count = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, payload: bytes) -> None:
        """Another one has come."""
        self._kept.append(payload)
        self.count += 1
        self._bytes += len(payload)

    def get(self, number: int) -> bytes:
        """Return the payload that the present attempt sends next."""
        if self._retries is not None and self._bytes > self._buffer_bytes:
            self._retries.commit()
        return self._kept[number - self.count]

    def sent(self, count: int) -> None:
        """The present attempt has sent the first `count`, and needs them no more."""
        if self._retries is None or self._retries.is_committed:
            while len(self._kept) > self.count - count:
                self._kept.popleft()


class PushedRequests:
    """A stream of requests that the program pushes. sent: how many of those that were added, in any attempt.

    Each attempt sends them from the beginning as fast as the engine takes them, and half-closes after the last.
    """

    def __init__(self, retries: Retries | None, buffer_bytes: int) -> None:
        self.sent = 0
        self._kept = KeptRequests(retries, buffer_bytes)
        self._is_complete = False
        self._attempt: ClientCall | None = None
        self._sent_by_attempt = 0
        self._is_half_closed = False  # the attempt

    def begin(self, attempt: ClientCall) -> None:
        """Send by this attempt from now on: at the next `go_on`."""
        self._attempt, self._sent_by_attempt, self._is_half_closed = attempt, 0, False

    def send(self, payload: bytes) -> bool:
        """Send one that need not be kept; False, and nothing was sent, unless the engine takes it now."""
        return not self._kept and self._attempt is not None and _try_send(self._attempt, payload)

    def add(self, payload: bytes) -> int:
        """Keep another one; return which it is: it is on its way once so many are `sent`."""
        self._kept.add(payload)
        self.go_on()
        return self._kept.count

    def complete(self) -> None:
        """No further one comes."""
        self._is_complete = True
        self.go_on()

    def go_on(self) -> None:
        """Send as much as the attempt takes, and half-close after the last."""
        attempt, kept = self._attempt, self._kept
        if attempt is None or attempt.is_ended():
            return
        while self._sent_by_attempt < kept.count and _try_send(attempt, kept.get(self._sent_by_attempt)):
            self._sent_by_attempt += 1
            kept.sent(self._sent_by_attempt)
        self.sent = max(self.sent, self._sent_by_attempt)
        if self._is_complete and self._sent_by_attempt == kept.count and not self._is_half_closed:
            self._is_half_closed = True
            with contextlib.suppress(TransportError):  # it has just ended
                attempt.half_close()


def _try_send(attempt: ClientCall, payload: bytes) -> bool:
    """Send the payload; False when the other side takes no more for now, and when the attempt has just ended."""
    try:
        return attempt.try_send(payload)
    except TransportError:
        return False


class StreamedRequests:
    """What an iterator yields, sent by each attempt of a call from the beginning. messages: makes the payloads.

    A thread pulls the next request when the engine has taken the one before, so a slow engine holds the iterator back.
    retries, buffer_bytes: as in `KeptRequests`.
    """

    def __init__(self, requests: Iterator[Any], messages: Messages, retries: Retries | None, buffer_bytes: int) -> None:
        self._requests = requests
        self._messages = messages
        self._kept = KeptRequests(retries, buffer_bytes)
        self._is_exhausted = False
        self._reader: object = None  # of the present attempt
        self._taking = threading.Lock()  # held while the iterator is waited for
        self._lock = threading.Lock()

    def send(self, call: ClientCall, give_up: Callable[[CallStatus], Any]) -> None:
        """Start to send them by a new attempt, and half-close after the last; the attempt before sends no more.

        give_up: ends the call, with this status, when a request cannot be had or sent.
        """
        context = contextvars.copy_context()  # the iterator runs in its caller's context
        # The thread does not hold the object that the caller has: dropping that ends the call, and so the thread.
        thread = threading.Thread(
            target=context.run, args=(_send_all, self.again(), call, give_up), name="grpc requests", daemon=True
        )
        start_thread(thread)

    def again(self) -> Iterator[bytes]:
        """Return an iterator over the payloads for a new attempt; that of the attempt before ends.

        It raises StatusError for a request that cannot be sent, and what the iterator of the requests raises.
        """
        reader = object()
        with self._lock:
            self._reader = reader
        return self._read(reader)

    def _read(self, reader: object) -> Iterator[bytes]:
        number = 0
        while True:
            if number == self._kept.count:
                with self._taking:  # not for what is kept: the attempt before may be waiting for the iterator
                    if number == self._kept.count and not self._is_exhausted and reader is self._reader:
                        self._take()
            with self._lock:
                if reader is not self._reader or number == self._kept.count:
                    return
                payload = self._kept.get(number)
                number += 1
                self._kept.sent(number)
            yield payload

    def _take(self) -> None:
        """Keep the next request."""
        try:
            request = next(self._requests)
        except StopIteration:
            self._is_exhausted = True
            return
        try:
            payload = self._messages.payload(request)
        except TypeError:
            _log.exception(_SERIALIZING.details)
            raise error_of(_SERIALIZING.code, _SERIALIZING.details) from None
        self._messages.check_length(payload)
        self._kept.add(payload)


def _send_all(payloads: Iterator[bytes], call: ClientCall, give_up: Callable[[CallStatus], Any]) -> None:
    with contextlib.suppress(TransportError):  # of sending: the call has ended, the waiting thread gets the reason
        while not call.is_ended():
            try:
                payload = next(payloads)
            except StopIteration:
                call.half_close()
                return
            except StatusError as error:
                give_up(status_of(error))
                return
            except Exception:  # the program's iterator may raise anything
                _log.exception(_ITERATING.details)
                give_up(_ITERATING)
                return
            call.send(payload)
