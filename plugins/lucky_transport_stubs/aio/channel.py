"""An asyncio gRPC channel through shared memory: a `grpc.aio.Channel`.

    async with aio_channel("shm://demo") as channel:
        reply = await GreeterStub(channel).SayHello(HelloRequest(name="you"))

Everything above the messages' bytes is grpc.aio's own code: calls, interceptors, metadata, errors. A call that is
dropped is cancelled. It belongs to the loop that it is made on, where channels with the same target and arguments share
a connection, as gRPC's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from lucky_transport.endpoint import Endpoint
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.connection import Connection
from lucky_transport_stubs.aio.unary import UnaryMethod
from lucky_transport_stubs.client.channel import endpoint_of
from lucky_transport_stubs.grpc_inside import AIO_CHANNELS_KNOW_CALLS, AioChannelBase, appears_as, working_loop

_KINDS = {
    "_unary_unary_interceptors": grpc.aio.UnaryUnaryClientInterceptor,
    "_unary_stream_interceptors": grpc.aio.UnaryStreamClientInterceptor,
    "_stream_unary_interceptors": grpc.aio.StreamUnaryClientInterceptor,
    "_stream_stream_interceptors": grpc.aio.StreamStreamClientInterceptor,
}


def aio_channel(
    endpoint: str | Endpoint | None = None,
    options: Sequence[tuple[str, Any]] | None = None,
    compression: grpc.Compression | None = None,
    interceptors: Sequence[grpc.aio.ClientInterceptor] | None = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.aio.Channel:
    """Return a channel to `endpoint` (default: `LUCKY_ENDPOINT`): shm://name, or a real one for grpc and grpc+unix.

    The other arguments are those of `grpc.aio.secure_channel`. Raises ConfigError for other endpoints and for
    credentials of a network's peer, ValueError for what is no interceptor; TypeError, ValueError for what are no
    options; AttributeError, TypeError for no credentials.
    """
    found = endpoint_of(endpoint)
    if found.scheme == "shm":
        return Channel(
            Connection(working_loop(), found, tuple(options or ()), credentials, compression), interceptors or ()
        )
    if credentials is None:
        return grpc.aio.insecure_channel(target_of(found), options, compression, interceptors)
    return grpc.aio.secure_channel(target_of(found), credentials, options, compression, interceptors)


@appears_as(AioChannelBase)
class Channel(AioChannelBase):
    """Made by `aio_channel`. An interceptor of several kinds is registered for the first only, as grpc.aio does it."""

    def __init__(self, connection: Connection, interceptors: Sequence[grpc.aio.ClientInterceptor]) -> None:
        self._loop = connection.loop
        self._channel = connection
        self._active_calls: WeakSet[Any] = WeakSet()
        for attribute in _KINDS:
            setattr(self, attribute, [])
        for interceptor in interceptors:
            getattr(self, _kind_of(interceptor)).append(interceptor)

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """Return what calls the method: at once, where calls go over a connection of ours and nowhere else."""
        serializers = request_serializer, response_deserializer
        if self._unary_unary_interceptors or not (AIO_CHANNELS_KNOW_CALLS and isinstance(self._channel, Connection)):
            return super().unary_unary(method, *serializers)
        return UnaryMethod(self._channel, method.encode(), *serializers, [], [self], self._loop)

    def _register_call(self, call: grpc.aio.Call) -> None:
        """Remember the call for `close`; grpc's own way would hold it, and who drops a call could not cancel it so."""
        self._active_calls.add(call)


def _kind_of(interceptor: object) -> str:
    """Return the attribute that holds the interceptors of its kind."""
    for attribute, kind in _KINDS.items():
        if isinstance(interceptor, kind):
            return attribute
    names = " or ".join(kind.__name__ for kind in _KINDS.values())
    raise ValueError(f"Interceptor {interceptor} must be {names}. ")
