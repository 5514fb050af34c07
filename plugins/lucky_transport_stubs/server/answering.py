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
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.server.context import ServicerContext
from lucky_transport_stubs.server.received import Requests
from lucky_transport_stubs.words.arities import arity_of
from lucky_transport_stubs.words.status import Code

__all__ = ["answer_call", "behaviour_of"]

_log = logging.getLogger("lucky_transport")


def behaviour_of(handler: Any) -> Callable[..., Any]:
    """Return the method of a grpc.RpcMethodHandler."""
    return getattr(handler, arity_of(handler))


def answer_call(handler: Any, state: ServerCallState, context: ServicerContext) -> bool:
    """Call the handler's method with this context and give its answer.

    When this returns False the call has ended. It returns True for a method that does not block
    (`experimental_non_blocking`), whose call ends when its callback is called with None.
    """
    requests = Requests(state, handler.request_deserializer)
    request = requests if handler.request_streaming else requests.only()
    if request is None:
        return False
    method = behaviour_of(handler)
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


def _serialized(state: ServerCallState, message: Any, serializer: Callable[[Any], bytes] | None) -> bytes | None:
    """Return the message's bytes, None when there are none: the call has then failed."""
    payload = message
    if serializer is not None:
        try:
            payload = serializer(message)
        except Exception:
            _log.exception("Exception serializing message!")
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
