"""The requests of one call, for its handler.

A message that cannot be read fails the call with grpc.server's text, and ends the requests.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.words.status import Code

__all__ = ["Requests"]

_log = logging.getLogger("lucky_transport")
#: The bit in a call's shape that says that its caller sends any number of messages.
_SENDS_MANY = int(Shape.CLIENT_STREAM)


class Requests:
    """An iterator over the caller's messages; any thread may ask for the next. deserializer: None for bytes."""

    def __init__(self, state: ServerCallState, deserializer: Callable[[bytes], Any] | None) -> None:
        self._state = state
        self._deserializer = deserializer
        self._is_taken = False

    def only(self) -> Any:
        """Return the one request of a unary method, None where there is none or the caller has left.

        The call has then ended. A caller that cancels before the method was called can rely on it never being called.
        """
        with contextlib.suppress(TransportError):  # the caller leaves just now
            payload = self._receive() if self._state.is_active else None
            if payload is not None:
                return self._message(payload)
        if self._state.is_active:
            text = f'"{self._state.call.path.encode()}" requires exactly one request message.'  # so it stands in gRPC
            self._state.fail(Code.UNIMPLEMENTED, text)
        else:
            self._state.drop()
        return None

    def __iter__(self) -> Requests:
        return self

    def __next__(self) -> Any:
        """Return the next request.

        Raises RpcError when the caller left before the last one, each time: a handler can tell that from the end.
        """
        try:
            payload = self._receive()
        except TransportError:
            raise grpc.RpcError() from None
        message = None if payload is None else self._message(payload)
        if message is None:
            raise StopIteration
        return message

    next = __next__

    def _receive(self) -> bytes | None:
        call = self._state.call
        if call.shape & _SENDS_MANY:
            return call.recv()
        if self._is_taken:
            return None
        self._is_taken = True
        return call.payload

    def _message(self, payload: bytes) -> Any:
        message: Any = payload
        if self._deserializer is not None:
            try:
                message = self._deserializer(payload)
            except Exception:
                _log.exception("Exception deserializing message!")
                message = None
        if message is None:
            self._state.fail(Code.INTERNAL, "Exception deserializing request!")
        return message
