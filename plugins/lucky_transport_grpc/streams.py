"""A server stream being received over gRPC. It ends by its last item, `cancel`, its deadline, the engine's end or the
connection's; each ends every wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, TransportError
from lucky_transport.messages.methods import Flow, Method
from lucky_transport.transport import Stream
from lucky_transport_grpc.codec import decode
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.metadata import DROPPED
from lucky_transport_grpc.runtime import grpc

__all__ = ["GrpcStream"]

#: Items of a `Flow.LATEST` stream that wait for their reader at most, so that a short pause costs nothing.
KEPT = 16


class GrpcStream(Stream):
    """The items of one call of `method`, decoded."""

    def __init__(self, connection: GrpcConnection, method: Method, call: Any, deadline: Deadline | None) -> None:
        self._reading = _Reading(connection, method, call, deadline)
        self._method = method
        self._latest = method.stream is Flow.LATEST
        # gRPC lets a sender run ahead by thousands of small items. A thread that always reads keeps the newest ones and
        # counts the rest. It refers to `_Reading` only, so that a stream which is dropped ends on both sides.
        if self._latest:
            threading.Thread(target=self._reading.run, name="lucky-grpc-stream", daemon=True).start()

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that were skipped so far, by this side; at the end also those that the engine skipped."""
        return self._reading.dropped

    def __next__(self) -> Any:
        item = self._reading.newest() if self._latest else self._reading.next()
        return decode(item, self._method.response)

    def cancel(self) -> None:
        reading = getattr(self, "_reading", None)
        if reading is not None:  # None when the constructor did not come that far
            reading.cancel()


class _Reading:
    """The call under way, what has come of it, and how it ended."""

    def __init__(self, connection: GrpcConnection, method: Method, call: Any, deadline: Deadline | None) -> None:
        self.dropped = 0
        self._connection = connection
        self._method = method
        self._call = call
        self._deadline = deadline
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._items: deque[Any] = deque()
        self._cancelled = False
        self._ended = False
        self._told = False  # the reader knows the end
        self._error: TransportError | None = None

    def next(self) -> Any:
        """Return the next item of all."""
        self._check()
        try:
            return next(self._call)
        except (grpc.RpcError, StopIteration) as error:
            self._end(error)
        raise self._outcome()

    def newest(self) -> Any:
        """Return the next of the items that were kept, waiting for one."""
        self._check(read=True)
        with self._changed:
            while not self._items and not self._ended and not self._cancelled:
                self._changed.wait()
            if self._items and not self._cancelled:
                return self._items.popleft()
        raise self._outcome()

    def run(self) -> None:
        """Read until the end, keeping the newest items."""
        try:
            for item in self._call:
                with self._changed:
                    if len(self._items) == KEPT:
                        self._items.popleft()
                        self.dropped += 1
                    self._items.append(item)
                    self._changed.notify()
        except grpc.RpcError as error:
            self._end(error)
        else:
            self._end(StopIteration())

    def _check(self, *, read: bool = False) -> None:
        self._connection.check_process()
        if self._deadline is not None and self._deadline.expired and not self._ended and not self._cancelled:
            # gRPC rounds deadlines up: a short one may see items after its end
            with self._changed:
                self._ended, self._error = True, self._connection.stream_late(self._method.name, self._deadline)
            self._call.cancel()
            raise self._outcome()
        if self._cancelled or (self._ended and not read):
            raise self._outcome()

    def _end(self, error: Any) -> None:
        """Note how the call ended."""
        with self._changed:
            if not self._ended:
                self._ended = True
                if isinstance(error, grpc.RpcError):
                    self._error = self._connection.stream_error(error, self._method.name, self._deadline)
                else:
                    self.dropped += _told_dropped(self._call)
            self._changed.notify_all()

    def _outcome(self) -> BaseException:
        """Return what a reader gets that asks for more."""
        self._told = True
        if self._cancelled:
            return Cancelled(f"{self._method.name} was cancelled", backend="grpc")
        if self._connection.closed:
            return self._connection.ended()
        if self._error is None:
            return StopIteration()
        return type(self._error)(str(self._error), backend=self._error.backend)

    def cancel(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._changed:
            if self._told:
                return
            self._cancelled = True
            self._items.clear()
            self._changed.notify_all()
        self._call.cancel()


def _told_dropped(call: Any) -> int:
    for key, value in call.trailing_metadata() or ():
        if key == DROPPED and isinstance(value, str) and value.isdecimal():
            return int(value)
    return 0
