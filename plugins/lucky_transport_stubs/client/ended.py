"""Calls that have ended, as objects of gRPC's own classes: programs name these in `except` clauses and print them.

A raised error is an RpcError, a Call and a Future in one, as in gRPC; so is what `with_call` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_stubs.grpc_inside import InactiveRpcError, Rendezvous, RpcState
from lucky_transport_stubs.words.metadata import check_size, metadata_of, within_limit
from lucky_transport_stubs.words.status import OK, CallStatus

__all__ = ["ended_state", "failed", "status_at_end", "succeeded"]


def failed(status: CallStatus, headers: Metadata = ()) -> Any:
    """Return what to raise for a call that ended with this status."""
    return InactiveRpcError(ended_state(status, headers))


def succeeded(response: Any, status: CallStatus, headers: Metadata) -> Any:
    """Return a call that ended with a response."""
    state = ended_state(status, headers)
    state.response = response
    return Rendezvous(state, None, None, None)


def ended_state(status: CallStatus, headers: Metadata) -> Any:
    """Return what gRPC keeps of a call that ended with this status."""
    state = RpcState((), metadata_of(headers), metadata_of(status.trailing), status.code, status.details)
    state.debug_error_string = status.debug_error_string
    state.callbacks = None  # it is too late for any
    return state


def status_at_end(call: ClientCall, status_of: Callable[[TransportError], CallStatus]) -> CallStatus:
    """Return the status of a call that has ended, in threads and in asyncio.

    Metadata that are more than a header holds do not reach the program: the call fails in their place.
    """
    trailing = within_limit(call.trailing)
    try:
        check_size(call.headers or (), call.trailing)
    except StatusError as error:
        return replace(status_of(error), trailing=trailing)
    return replace(OK, trailing=trailing) if call.error is None else status_of(call.error)
