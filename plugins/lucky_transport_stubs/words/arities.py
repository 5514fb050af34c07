"""The four arities of gRPC, in one table, and a channel that makes the callables of all four in one way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from lucky_transport_stubs.grpc_inside import ChannelBase

#: Does it take a stream of requests, does it give a stream of responses -> its name, that of a channel's factory too.
ARITIES = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}

Transform = Callable[[Any], Any] | None


def _maker(arity: str) -> Callable[..., Any]:
    """Return the method of a channel that makes the callables of an arity."""

    def make(
        channel: ArityChannel,
        method: str | bytes,
        request_serializer: Transform = None,
        response_deserializer: Transform = None,
        _registered_method: bool | None = False,
    ) -> Any:
        path = method if isinstance(method, str) else method.decode()
        return channel.make_callable(arity, path, request_serializer, response_deserializer)

    return make


class ArityChannel(ChannelBase):
    """A `grpc.Channel` that leaves the making of callables to `make_callable`."""

    @abstractmethod
    def make_callable(self, arity: str, method: str, serialize: Transform, deserialize: Transform) -> Any:
        """Return the callable of a method, given by its path; without serializers it takes and gives bytes."""

    unary_unary = _maker("unary_unary")
    unary_stream = _maker("unary_stream")
    stream_unary = _maker("stream_unary")
    stream_stream = _maker("stream_stream")

    def _get_registered_call_handle(self, method: str) -> int:
        """Return a method's handle, for stubs without a channel of their own; here its name is all it needs."""
        return 0

    def __exit__(self, *exception: object) -> None:
        self.close()
