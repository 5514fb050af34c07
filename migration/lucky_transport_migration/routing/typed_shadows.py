"""Makes typed calls a second time, over connections of its own: callers keep theirs, whatever becomes of these."""

from __future__ import annotations

from collections.abc import Mapping

from lucky_transport.deadline import Deadline
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.routing import SO_FAR, Ending, Received, RoutedCall
from lucky_transport.transport import Stream
from lucky_transport_migration.evidence.outcome import ending_of
from lucky_transport_migration.routing.connection import RoutedConnection

__all__ = ["TypedShadows"]


class TypedShadows:
    """A `lucky_transport.routing.ShadowCaller` over twins of `connections`."""

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
            if received.is_full or call.has_enough(len(received.items)):
                return SO_FAR
        received.dropped = stream.dropped
    return Ending()
