"""A `grpc.Channel` in front of two: real gRPC, and shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.routing import RoutedTarget
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.staged.multicallable import StreamStream, StreamUnary, UnaryStream, UnaryUnary

__all__ = ["StagedChannel"]

Transform = Callable[[Any], Any] | None


class StagedChannel(grpc.Channel):
    """sides: the channels that answer, "grpc" and "shm". How it stands is how the one for unnamed methods stands."""

    def __init__(self, sides: Mapping[str, Any], target: RoutedTarget) -> None:
        self._sides = sides
        self._target = target

    def subscribe(self, callback: Callable[[Any], Any], try_to_connect: bool | None = False) -> None:
        self._sides[self._target.default].subscribe(callback, try_to_connect=try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], Any]) -> None:
        for side in self._sides.values():
            side.unsubscribe(callback)

    def unary_unary(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryUnaryMultiCallable:
        return self._method(UnaryUnary, method, request_serializer, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryStreamMultiCallable:
        return self._method(UnaryStream, method, request_serializer, response_deserializer)

    def stream_unary(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamUnaryMultiCallable:
        return self._method(StreamUnary, method, request_serializer, response_deserializer)

    def stream_stream(
        self,
        method: str,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamStreamMultiCallable:
        return self._method(StreamStream, method, request_serializer, response_deserializer)

    def _get_registered_call_handle(self, method: str) -> int:
        """Return a method's handle, for stubs without a channel of their own; here its name is all it needs."""
        return 0

    def close(self) -> None:
        """End every call under way as CANCELLED; shadows under way have a moment. Idempotent."""
        for side in self._sides.values():
            side.close()
        self._target.close()

    def __enter__(self) -> StagedChannel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _method(self, kind: Any, method: str | bytes, serialize: Transform, deserialize: Transform) -> Any:
        path = method if isinstance(method, str) else method.decode()
        return kind(self._sides, self._target, path, serialize, deserialize)
