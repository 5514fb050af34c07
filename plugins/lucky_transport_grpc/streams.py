"""A server stream being received over gRPC. It ends by its last item, `cancel`, its deadline, the engine's end or the
connection's; each ends every wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, TransportError
from lucky_transport.messages.methods import Flow, Method
from lucky_transport.transport import Stream
from lucky_transport.uninterrupted import WaitQueue, start_thread
from lucky_transport_grpc.codec import decode
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.kept_threads import run_on_kept_thread
from lucky_transport_grpc.metadata import DROPPED
from lucky_transport_grpc.runtime import grpc

#: Items that wait for their reader at most, so that a short pause costs nothing.
KEPT = 16


class GrpcStream(Stream):
    """The items of one call of `method`, decoded. start: makes the call."""

    def __init__(
        self, connection: GrpcConnection, method: Method, start: Callable[[], Any], deadline: Deadline | None
    ) -> None:
        self._reading = _Reading(connection, method, start, deadline)
        self._method = method
        # gRPC lets a sender run ahead by thousands of small items, and a signal handler that raises in its calls leaves
        # them unusable (see `CallsUnderWay`). So a thread reads. Of the latest state it keeps the newest items and
        # counts the rest. It refers to `_Reading` only: a stream which is dropped ends on both sides.
        start_thread(threading.Thread(target=self._reading.run, name="lucky-grpc-stream", daemon=True))

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that were skipped so far, by this side; at the end also those that the engine skipped."""
        return self._reading.dropped

    def __next__(self) -> Any:
        return decode(self._reading.next(), self._method.response)

    def cancel(self) -> None:
        reading = getattr(self, "_reading", None)
        if reading is not None:  # None when the constructor did not come that far
            reading.cancel()


class _Reading:
    """The call under way, what has come of it, and how it ended."""

    def __init__(
        self, connection: GrpcConnection, method: Method, start: Callable[[], Any], deadline: Deadline | None
    ) -> None:
        self.dropped = 0
        self._connection = connection
        self._method = method
        self._start = start
        self._deadline = deadline
        self._call: Any = None
        self._pid = os.getpid()
        self._changed = WaitQueue()
        self._items: deque[Any] = deque()
        self._cancelled = False
        self._ended = False
        self._told = False  # the reader knows the end
        self._error: BaseException | None = None

    def next(self) -> Any:
        """Return the next of the items that were kept, waiting for one."""
        self._connection.check_process()
        if self._told:
            raise self._outcome()  # whatever came after the end
        if self._deadline is not None and self._deadline.expired and (self._items or not self._is_over()):
            # as in gRPC, what was not read by then is dropped; gRPC rounds deadlines up
            self._error = self._connection.stream_late(self._method.name, self._deadline)
            self._ended = True
            self._items.clear()
            self._end_call()
            raise self._outcome()
        while not self._cancelled:
            with suppress(IndexError):
                item = self._items.popleft()
                self._changed.wake_all()
                return item
            if self._ended and not self._items:
                break
            self._changed.wait_for(lambda: self._items or self._is_over())
        raise self._outcome()

    def run(self) -> None:
        """Make the call and read until the end."""
        try:
            self._call = self._start()
            if self._is_over():
                self._call.cancel()
            for item in self._call:
                if self._method.stream is not Flow.LATEST:
                    self._changed.wait_for(self._has_room)
                elif len(self._items) >= KEPT:
                    with suppress(IndexError):
                        self._items.popleft()
                        self.dropped += 1
                self._items.append(item)
                self._changed.wake_all()
            self._end(None)
        except BaseException as error:  # an interceptor's code may raise anything
            self._end(error)

    def _is_over(self) -> bool:
        return self._ended or self._cancelled

    def _has_room(self) -> bool:
        return len(self._items) < KEPT or self._is_over() or self._connection.closed

    def _end(self, error: Any) -> None:
        """Note how the call ended; None: with its last item."""
        if not self._ended:
            if isinstance(error, grpc.RpcError):
                self._error = self._connection.stream_error(error, self._method.name, self._deadline)
            elif error is not None:
                self._error = error
            else:
                self.dropped += _told_dropped(self._call)
            self._ended = True
        self._changed.wake_all()

    def _outcome(self) -> BaseException:
        """Return what a reader gets that asks for more."""
        self._told = True
        if self._cancelled:
            return Cancelled(f"{self._method.name} was cancelled", backend="grpc")
        if self._connection.closed:
            return self._connection.ended()
        if self._error is None:
            return StopIteration()
        if not isinstance(self._error, TransportError):
            return self._error
        return type(self._error)(str(self._error), backend=self._error.backend)

    def cancel(self) -> None:
        if os.getpid() != self._pid or self._told:
            return
        self._cancelled = True
        self._items.clear()
        self._changed.wake_all()
        self._end_call()

    def _end_call(self) -> None:
        if self._call is not None:
            run_on_kept_thread(self._call.cancel)


def _told_dropped(call: Any) -> int:
    for key, value in call.trailing_metadata() or ():
        if key == DROPPED and isinstance(value, str) and value.isdecimal():
            return int(value)
    return 0
