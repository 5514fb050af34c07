"""Unary calls that begin where they are made: grpc.aio's own need a task for each, and three more turns of the loop.

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
from collections.abc import Generator
from typing import Any

from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.grpc_inside import (
    AioCall,
    AioUnaryUnary,
    AioUnaryUnaryCall,
    appears_as,
    deserialize,
    serialize,
)

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
