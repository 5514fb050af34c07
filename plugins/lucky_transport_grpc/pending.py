"""A unary call under way over gRPC: what `Transport.begin` returns there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.pending import Pending
from lucky_transport_grpc.connection import Connection
from lucky_transport_grpc.runtime import grpc

__all__ = ["GrpcPending"]


class GrpcPending(Pending):
    """See `Pending`. future: gRPC's call. read: makes the response of its message. fail: makes our error of gRPC's."""

    def __init__(
        self,
        connection: Connection,
        future: Any,
        read: Callable[[Any], Any],
        fail: Callable[[Any], TransportError],
    ) -> None:
        self._connection = connection
        self._future = future
        self._read = read
        self._fail = fail

    def result(self) -> Any:
        try:
            message = self._future.result()
        except grpc.FutureCancelledError as error:
            raise self._connection.ended() from error
        except grpc.RpcError as error:
            raise self._fail(error) from error
        return self._read(message)

    def cancel(self) -> None:
        self._future.cancel()
