"""An asyncio gRPC channel through shared memory: a `grpc.aio.Channel`.

    async with aio_channel("shm://demo") as channel:
        reply = await GreeterStub(channel).SayHello(HelloRequest(name="you"))

Everything above the messages' bytes is grpc.aio's own code: calls, interceptors, metadata, errors. A call that is
dropped is cancelled. It belongs to the loop that it is made on, where channels with the same target and arguments share
a connection, as gRPC's do.

Unary calls begin where they are made: grpc.aio's own need a task for each, and three more turns of the loop.

    grpc.aio                                        here
    the call makes a task                           the call serializes its request and sends it
    the task serializes the request and sends it
    the response wakes the task                     the response wakes who awaits the call
    the task wakes who awaits the call

All else of a call is grpc.aio's. With interceptors calls are wholly its own: those await in the task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from typing import Any
from weakref import WeakSet

from lucky_transport.endpoint import Endpoint
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.aio.connection import Connection
from lucky_transport_stubs.client.channel import endpoint_of
from lucky_transport_stubs.grpc_inside import (
    AIO_CHANNELS_KNOW_CALLS,
    AioCall,
    AioChannelBase,
    AioUnaryUnary,
    AioUnaryUnaryCall,
    appears_as,
    deserialize,
    serialize,
    working_loop,
)

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


_NOT_YET = object()


@appears_as(AioUnaryUnary)
class UnaryMethod(AioUnaryUnary):
    """A method with one request and one response, without interceptors."""

    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Any = None,
        credentials: Any = None,
        wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> Any:
        """Return the call, whose request is under way."""
        metadata = self._init_metadata(metadata, compression) if metadata or compression else ()
        deadline = None if timeout is None else time.time() + timeout
        begun = self._channel.call(self._method, deadline, credentials, wait_for_ready)
        call = UnaryCall(begun, metadata, self._request_serializer, self._response_deserializer, self._loop)
        self._python_channel._register_call(call)
        call.begin(request)
        return call


@appears_as(AioUnaryUnaryCall)
class UnaryCall(AioUnaryUnaryCall):
    """What `UnaryMethod` returns. Awaited it returns the response, as often as one likes."""

    _cython_call: RingCall
    _received: Any = _NOT_YET

    __init__ = AioCall.__init__  # that of its class makes a task

    def begin(self, request: Any) -> None:
        """Send the request; what it raises is raised where the call is awaited."""
        try:
            raw = serialize(request, self._request_serializer)
            response = self._cython_call.begin_unary(raw, self._metadata)
        except Exception as error:
            response = self._loop.create_future()
            response.set_exception(error)
        # By the names of the two tasks, which the rest of the class cancels and awaits.
        self._invocation_task = self._call_response = response

    def __await__(self) -> Generator[Any, None, Any]:
        """Return the response. Raises AioRpcError, CancelledError; what a done callback raised."""
        try:
            raw = yield from self._call_response
        except asyncio.CancelledError:
            if not self.cancelled():
                self.cancel()
            raise
        if not self._cython_call.is_ok():
            yield from self._raise_for_status().__await__()
        if self._received is _NOT_YET:
            self._received = deserialize(raw, self._response_deserializer)
        return self._received
