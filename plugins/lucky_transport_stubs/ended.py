"""Calls that have ended, as objects of gRPC's own classes: programs name these in `except` clauses and print them.

A raised error is an RpcError, a Call and a Future in one, as in gRPC; so is what `with_call` returns.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_stubs.inner import InactiveRpcError, Rendezvous, RpcState
from lucky_transport_stubs.metadata import metadata_of
from lucky_transport_stubs.status import CallStatus

__all__ = ["ended_state", "failed", "succeeded"]


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
