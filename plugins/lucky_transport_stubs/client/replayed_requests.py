"""A stream of requests that can be sent more than once: what was taken from its iterator is kept for another attempt.

Each attempt reads from the beginning. Once what is kept is more than the buffer of the channel holds, the call is
committed to the present attempt, as in gRPC, and what it has read is let go of.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.retries import Retries
from lucky_transport_stubs.words.status import Code, error_of

__all__ = ["ReplayedRequests"]

_log = logging.getLogger("lucky_transport")


class ReplayedRequests:
    """The payloads of `requests`. retries: of the call, which is committed when they are more than `buffer_bytes`."""

    def __init__(self, requests: Iterator[Any], messages: Messages, buffer_bytes: int, retries: Retries) -> None:
        self._requests = requests
        self._messages = messages
        self._buffer_bytes = buffer_bytes
        self._retries = retries
        self._kept: list[bytes] = []
        self._bytes = 0
        self._is_exhausted = False
        self._reader: object = None  # of the present attempt
        self._taking = threading.Lock()  # held while the iterator is waited for
        self._lock = threading.Lock()

    def again(self) -> Iterator[bytes]:
        """Return an iterator over the payloads for a new attempt; that of the attempt before ends.

        It raises StatusError for a request that cannot be sent, and what the iterator raises.
        """
        reader = object()
        with self._lock:
            self._reader = reader
        return self._read(reader)

    def _read(self, reader: object) -> Iterator[bytes]:
        position = 0
        while True:
            if position == len(self._kept):
                with self._taking:  # not for what is kept: the attempt before may be waiting for the iterator
                    if position == len(self._kept) and not self._is_exhausted and reader is self._reader:
                        self._take()
            with self._lock:
                if reader is not self._reader or position == len(self._kept):
                    return
                payload = self._kept[position]
                if self._bytes > self._buffer_bytes:
                    self._retries.commit()
                if self._retries.is_committed:
                    del self._kept[: position + 1]
                    position = 0
                else:
                    position += 1
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
            _log.exception("Exception serializing request!")
            raise error_of(Code.INTERNAL, "Exception serializing request!") from None
        self._messages.check_length(payload)
        self._kept.append(payload)
        self._bytes += len(payload)
