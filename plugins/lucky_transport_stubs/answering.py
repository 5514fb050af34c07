"""How a handler of grpc's comes to its answer: the request in, the method called, the response out.

Whatever foreign code does wrong ends in a status, in the words of grpc.server; nothing of it is raised. The arity is
the handler's; a caller of another arity is served as far as that makes sense.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.answer import ResponseWriter
from lucky_transport_stubs.arities import arity_of
from lucky_transport_stubs.context import ServicerContext
from lucky_transport_stubs.received import Requests
from lucky_transport_stubs.status import Code

__all__ = ["answer_call", "behaviour_of"]

_log = logging.getLogger("lucky_transport")


def behaviour_of(handler: Any) -> Callable[..., Any]:
    """Return the method of a grpc.RpcMethodHandler."""
    return getattr(handler, arity_of(handler))


def answer_call(handler: Any, answer: ResponseWriter, context: ServicerContext) -> None:
    """Call the handler's method with this context and give its answer; returns when the call has ended."""
    requests = Requests(answer, handler.request_deserializer)
    request = requests if handler.request_streaming else requests.only()
    if request is None:
        return
    try:
        response = behaviour_of(handler)(request, context)
    except BaseException as error:  # SystemExit too: the caller must get an answer
        _fail(answer, error, "calling application")
        return
    if handler.response_streaming:
        _send_all(answer, response, handler.response_serializer)
    elif (payload := _serialized(answer, response, handler.response_serializer)) is not None:
        answer.send(payload)
        answer.end()


def _serialized(answer: ResponseWriter, message: Any, serializer: Callable[[Any], bytes] | None) -> bytes | None:
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
    answer.fail(Code.INTERNAL, "Failed to serialize response!")
    return None


def _send_all(answer: ResponseWriter, responses: Any, serializer: Callable[[Any], bytes] | None) -> None:
    """Send what the handler's method iterates over, until it or the caller has enough."""
    while answer.is_active:
        try:
            response = next(responses)
        except StopIteration:
            response = None
        except BaseException as error:  # as above
            _fail(answer, error, "iterating responses")
            return
        if response is None:
            answer.end()
            return
        payload = _serialized(answer, response, serializer)
        if payload is None:
            return
        answer.send(payload)
    answer.drop()


def _fail(answer: ResponseWriter, error: BaseException, doing: str) -> None:
    """Give the caller what the handler's exception stands for."""
    if answer.is_aborted:
        answer.fail(Code.UNKNOWN, "RPC Aborted")
        return
    if isinstance(error, grpc.RpcError) and not answer.is_active:  # we told it so
        answer.drop()
        return
    try:
        details = f"Exception {doing}: {error}"
    except Exception:
        details = "Calling application raised unprintable Exception!"
    _log.exception(details)
    answer.fail(Code.UNKNOWN, details)
