"""The four arities of gRPC, in one table, and a channel that makes the callables of all four in one way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import ChannelBase

#: Does it take a stream of requests, does it give a stream of responses -> its name, that of a channel's factory too.
ARITIES = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}

Transform = Callable[[Any], Any] | None


class ArityChannel(ChannelBase):
    """A `grpc.Channel` that leaves the making of callables to `_make`."""

    @abstractmethod
    def _make(self, arity: str, method: str, serialize: Transform, deserialize: Transform) -> Any:
        """Return the callable of a method, given by its path; without serializers it takes and gives bytes."""

    def unary_unary(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryUnaryMultiCallable:
        return self._make("unary_unary", _path(method), request_serializer, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryStreamMultiCallable:
        return self._make("unary_stream", _path(method), request_serializer, response_deserializer)

    def stream_unary(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamUnaryMultiCallable:
        return self._make("stream_unary", _path(method), request_serializer, response_deserializer)

    def stream_stream(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamStreamMultiCallable:
        return self._make("stream_stream", _path(method), request_serializer, response_deserializer)

    def _get_registered_call_handle(self, method: str) -> int:
        """Return a method's handle, for stubs without a channel of their own; here its name is all it needs."""
        return 0

    def __exit__(self, *exception: object) -> None:
        self.close()


def _path(method: str | bytes) -> str:
    return method if isinstance(method, str) else method.decode()
