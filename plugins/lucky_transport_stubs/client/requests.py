"""Sends a stream of requests: pulled from the caller's iterator, on a thread of its own.

The next request is pulled when the engine has taken the one before, so a slow engine holds the iterator back.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.status import CallStatus, Code, status_of

__all__ = ["send_requests"]

_log = logging.getLogger("lucky_transport")
_ITERATING = CallStatus(Code.UNKNOWN, "Exception iterating requests!")
_SERIALIZING = CallStatus(Code.INTERNAL, "Exception serializing request!")


def send_requests(requests: Any, messages: Messages, call: ClientCall, give_up: Callable[[CallStatus], Any]) -> None:
    """Start to send the requests that the iterator yields, and half-close after the last.

    give_up: ends the call, with this status, when a request cannot be had or sent.
    """
    context = contextvars.copy_context()  # the iterator runs in its caller's context
    # The thread does not hold the object that the caller has: dropping that ends the call, and so the thread.
    thread = threading.Thread(
        target=context.run, args=(_send_all, requests, messages, call, give_up), name="grpc requests", daemon=True
    )
    thread.start()


def _send_all(requests: Any, messages: Messages, call: ClientCall, give_up: Callable[[CallStatus], Any]) -> None:
    while not call.is_ended():
        try:
            request = next(requests)
        except StopIteration:
            break
        except StatusError as error:  # of `ReplayedRequests`
            give_up(status_of(error))
            return
        except Exception:  # the program's iterator may raise anything
            _log.exception(_ITERATING.details)
            give_up(_ITERATING)
            return
        if not _send(request, messages, call, give_up):
            return
    _half_close(call)


def _send(request: Any, messages: Messages, call: ClientCall, give_up: Callable[[CallStatus], Any]) -> bool:
    """Send one request, as soon as the engine takes it; False when there is no more to send."""
    try:
        payload = messages.payload(request)
        messages.check_length(payload)
    except StatusError as error:
        give_up(status_of(error))
        return False
    except TypeError:
        _log.exception(_SERIALIZING.details)
        give_up(_SERIALIZING)
        return False
    try:
        call.send(payload)
    except TransportError:  # the call has ended: the waiting thread gets the reason
        return False
    return True


def _half_close(call: ClientCall) -> None:
    try:
        call.half_close()
    except TransportError:  # the engine has answered already, or the call was ended
        return
