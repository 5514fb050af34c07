"""One of the two connections behind a staged transport: made when it is first needed, and again when it was lost.

A connection that failed is not tried again for a second, so that no caller waits for it twice in a row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, NotReachable, TransportError
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.routing import SO_FAR, Ending, Received, RoutedCall
from lucky_transport.transport import Stream, Transport
from lucky_transport_migration.compare.difference import error_text
from lucky_transport_migration.evidence.outcome import ending_of

_RETRY_S = 1.0


class RoutedConnection:
    """The connection that decisions call `name`; `connect` makes it. Safe to use from any thread."""

    def __init__(self, name: str, connect: Callable[[], Transport]) -> None:
        self.name = name
        self._make = connect
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._error: TransportError | None = None
        self._retry_at = 0.0
        self._closed = False

    def twin(self) -> RoutedConnection:
        """Return another connection to the same place."""
        return RoutedConnection(self.name, self._make)

    @property
    def connected(self) -> Transport | None:
        """The connection, None when there is none."""
        return self._transport

    @property
    def retry_is_due(self) -> bool:
        """True when connecting failed, and long enough ago to try again."""
        return self._error is not None and time.monotonic() >= self._retry_at

    def open(self) -> Transport:
        """Return the connection, made if there is none; raises what connecting raises, ClosedError after `close`."""
        transport = self._transport
        if transport is not None:  # most calls need no lock
            return transport
        with self._lock:
            if self._transport is None and not self._closed:
                self._transport = self._connect()
            transport = self._transport
        if self._closed or transport is None:  # `close` does not wait for who connects
            self.close()
            raise ClosedError("the transport is closed", backend="staged", hint="connect again")
        return transport

    def ready(self) -> Transport:
        """Return the connection, without waiting for one that failed or was lost: then raises NotReachable."""
        if self._transport is None and (self._error is not None or self._lock.locked()):
            raise self._not_connected()
        return self.open()

    def lost(self, transport: Transport, error: TransportError) -> None:
        """Let go of a connection whose peer is gone, so that the next one who needs it connects anew."""
        with self._lock:
            if self._transport is not transport:
                return
            self._transport = None
            self._fails(error)
        transport.close()

    def close(self) -> None:
        """End the connection; never waits, idempotent."""
        self._closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _connect(self) -> Transport:
        if self._error is not None and not self.retry_is_due:
            raise self._not_connected()
        try:
            transport = self._make()
        except TransportError as error:
            self._fails(error)
            raise
        except Exception as error:  # foreign code
            wrapped = NotReachable(f"connecting to {self.name} broke: {error_text(error)}", backend="staged")
            self._fails(wrapped)
            raise wrapped from error
        self._error = None
        return transport

    def _fails(self, error: TransportError) -> None:
        self._error, self._retry_at = error, time.monotonic() + _RETRY_S

    def _not_connected(self) -> NotReachable:
        return NotReachable(f"{self.name} is not connected: {self._error or 'connecting'}", backend="staged")


class TypedShadows:
    """Makes typed calls a second time, over twins of `connections`: callers keep theirs, whatever becomes of these.

    A `lucky_transport.routing.ShadowCaller`.
    """

    def __init__(self, connections: Mapping[str, RoutedConnection]) -> None:
        self._connections = {name: connection.twin() for name, connection in connections.items()}

    def ask(self, call: RoutedCall, transport: str, timeout_s: float, received: Received) -> Ending:
        deadline = Deadline(timeout_s)
        try:
            connection, method, (request,) = self._connections[transport].open(), BY_NAME[call.method], call.requests
            if method.stream is None:
                received.add(connection.call(method, request, deadline))
                return Ending()
            return _read(connection.stream(method, request, deadline), call, received)
        except Exception as error:  # a candidate may raise anything: that is what shadows are for
            return ending_of(error)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _read(stream: Stream, call: RoutedCall, received: Received) -> Ending:
    """Read a stream to its end, or as far as it can be compared."""
    with stream:
        for item in stream:
            received.add(item)
            received.dropped = stream.dropped
            if not received.wants_more or call.has_enough(len(received.items)):
                return SO_FAR
        received.dropped = stream.dropped
    return Ending()
