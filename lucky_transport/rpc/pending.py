"""A typed unary call under way over a pipe: what `Transport.begin` returns there."""

from __future__ import annotations

from typing import Any

from lucky_transport.call import check_request, check_unary
from lucky_transport.codec.flatbuffers import encode
from lucky_transport.deadline import Deadline
from lucky_transport.messages.methods import Method
from lucky_transport.pending import Pending
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.typed import response_of

__all__ = ["PendingCall", "begin"]


def begin(calls: ClientCalls, method: Method, request: Any, deadline: Deadline) -> PendingCall:
    """Send a unary method's request, and return the call. Raises as `typed.call`, as far as it is known by then."""
    check_unary(method)
    check_request(method, request)
    opened = calls.open(method.id, encode(request), shape=Shape.UNARY, deadline=deadline)
    return PendingCall(calls, method, opened)


class PendingCall(Pending):
    """See `Pending`."""

    def __init__(self, calls: ClientCalls, method: Method, opened: ClientCall) -> None:
        self._calls = calls
        self._method = method
        self._opened = opened

    def result(self) -> Any:
        payload: Any = self._opened.recv()
        return response_of(self._calls, self._method, payload)

    def cancel(self) -> None:
        self._opened.cancel()
