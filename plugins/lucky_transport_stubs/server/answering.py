"""How a handler of grpc's comes to its answer: the request in, the method called, the response out.

Whatever foreign code does wrong ends in a status, in the words of grpc.server; nothing of it is raised. The arity is
the handler's; a caller of another arity is served as far as that makes sense.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import RequestIterator, appears_as
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.server.context import ServicerContext
from lucky_transport_stubs.words.arities import ARITIES
from lucky_transport_stubs.words.status import Code

_log = logging.getLogger("grpc._server")
_log_of_messages = logging.getLogger("grpc._common")
#: The bit in a call's shape that says that its caller sends any number of messages.
_SENDS_MANY = int(Shape.CLIENT_STREAM)


def behaviour_of(handler: Any) -> Callable[..., Any]:
    """Return the method of a grpc.RpcMethodHandler."""
    return getattr(handler, ARITIES[bool(handler.request_streaming), bool(handler.response_streaming)])


def answer_call(handler: Any, method: Callable[..., Any], state: ServerCallState, context: ServicerContext) -> bool:
    """Call the handler's method, which `behaviour_of` returned, with this context and give its answer.

    When this returns False the call has ended. It returns True for a method that does not block
    (`experimental_non_blocking`), whose call ends when its callback is called with None.
    """
    call, deserializer = state.call, handler.request_deserializer
    if handler.request_streaming:
        request = _Requests(state, deserializer)
    elif call.shape & _SENDS_MANY or call.is_over:
        request = _Requests(state, deserializer).only()
    else:
        request = _deserialized(state, call.payload, deserializer)
    if request is None:
        return False
    calls_back = handler.response_streaming and getattr(method, "experimental_non_blocking", False)
    arguments = (_ResponseCallback(state, handler.response_serializer),) if calls_back else ()
    try:
        response = method(request, context, *arguments)
    except BaseException as error:  # SystemExit too: the caller must get an answer
        _fail(state, error, "calling application")
        return False
    if calls_back:
        return True
    if handler.response_streaming:
        _send_all(state, response, handler.response_serializer)
    elif (payload := _serialized(state, response, handler.response_serializer)) is not None:
        _send(state, payload)
        state.end()
    return False


@appears_as(RequestIterator)
class _Requests:
    """An iterator over the caller's messages; any thread may ask for the next. deserializer: None for bytes.

    A message that cannot be read fails the call with grpc.server's text, and ends the requests.
    """

    def __init__(self, state: ServerCallState, deserializer: Callable[[bytes], Any] | None) -> None:
        self._state = state
        self._deserializer = deserializer
        self._is_taken = False

    def only(self) -> Any:
        """Return the one request of a unary method, None where there is none or the caller has left.

        The call has then ended. A caller that cancels before the method was called can rely on it never being called.
        """
        try:
            payload = self._receive() if self._state.is_active else None
            if payload is not None:
                return _deserialized(self._state, payload, self._deserializer)
        except TransportError:  # the caller leaves just now
            pass
        if self._state.is_active:
            name = self._state.call.path.encode() if self._state.name is None else self._state.name
            self._state.fail(Code.UNIMPLEMENTED, f'"{name}" requires exactly one request message.')  # as gRPC says it
        else:
            self._state.drop()
        return None

    def __iter__(self) -> _Requests:
        return self

    def __next__(self) -> Any:
        """Return the next request.

        Raises RpcError when the caller left before the last one, each time: a handler can tell that from the end.
        """
        try:
            payload = self._receive()
        except TransportError:
            raise grpc.RpcError() from None
        message = None if payload is None else _deserialized(self._state, payload, self._deserializer)
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


class _ResponseCallback:
    """Sends a response of a method that does not block, from any thread; None ends the call."""

    def __init__(self, state: ServerCallState, serializer: Callable[[Any], bytes] | None) -> None:
        self._state = state
        self._serializer = serializer
        self._turn = threading.Lock()

    def __call__(self, response: Any) -> None:
        with self._turn:
            if response is None or not self._state.is_active:
                _end(self._state)
            elif (payload := _serialized(self._state, response, self._serializer)) is not None:
                _send(self._state, payload)


def _end(state: ServerCallState) -> None:
    """End a call whose method has no more to say: well, unless the caller has left or it was ended before."""
    if state.is_active:
        state.end()
    else:
        state.drop()


def _deserialized(state: ServerCallState, payload: bytes, deserializer: Callable[[bytes], Any] | None) -> Any:
    """Return the message that the bytes are, None when they are none: the call has then failed."""
    message: Any = payload
    if deserializer is not None:
        try:
            message = deserializer(payload)
        except Exception:
            _log_of_messages.exception("Exception deserializing message!")
            message = None
    if message is None:
        state.fail(Code.INTERNAL, "Exception deserializing request!")
    return message


def _serialized(state: ServerCallState, message: Any, serializer: Callable[[Any], bytes] | None) -> bytes | None:
    """Return the message's bytes, None when there are none: the call has then failed."""
    payload = message
    if serializer is not None:
        try:
            payload = serializer(message)
        except Exception:
            _log_of_messages.exception("Exception serializing message!")
            payload = None
    if isinstance(payload, bytes):
        return payload
    state.fail(Code.INTERNAL, "Failed to serialize response!")
    return None


def _send(state: ServerCallState, payload: bytes) -> None:
    """Send one message; waits while the caller takes no more."""
    try:
        if state.accepts(payload):
            state.call.send(payload)
    except TransportError:  # the caller has left, or the call has failed
        return


def _send_all(state: ServerCallState, responses: Any, serializer: Callable[[Any], bytes] | None) -> None:
    """Send what the handler's method iterates over, until it or the caller has enough."""
    while state.is_active:
        try:
            response = next(responses)
        except StopIteration:
            response = None
        except BaseException as error:  # as above
            _fail(state, error, "iterating responses")
            return
        if response is None:
            break
        payload = _serialized(state, response, serializer)
        if payload is None:
            return
        _send(state, payload)
    _end(state)


def _fail(state: ServerCallState, error: BaseException, doing: str) -> None:
    """Give the caller what the handler's exception stands for."""
    if state.aborted:
        state.fail(Code.UNKNOWN, "RPC Aborted")
        return
    if isinstance(error, grpc.RpcError) and not state.is_active:  # we told it so
        state.drop()
        return
    try:
        details = f"Exception {doing}: {error}"
    except Exception:
        details = "Calling application raised unprintable Exception!"
    _log.exception(details)
    state.fail(Code.UNKNOWN, details)
