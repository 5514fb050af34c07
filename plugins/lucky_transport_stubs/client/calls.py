"""A call as its caller has it, under way or ended: an object of gRPC's own class, for programs name these in `except`
clauses and print them.

It is RpcError, Call, Future and, where responses are a stream, their iterator in one; `CallState` knows how far the
call is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client.call_state import CallState
from lucky_transport_stubs.grpc_inside import InactiveRpcError, Rendezvous, RpcState, appears_as
from lucky_transport_stubs.words.metadata import metadata_of
from lucky_transport_stubs.words.status import CallStatus, Code

_CANCELLED = CallStatus(Code.CANCELLED, "Locally cancelled by application!")


def failed(status: CallStatus, headers: Metadata = ()) -> Any:
    """Return what to raise for a call that ended with this status."""
    return InactiveRpcError(_ended_state(status, headers))


def succeeded(response: Any, status: CallStatus, headers: Metadata) -> Any:
    """Return a call that ended with a response."""
    state = _ended_state(status, headers)
    state.response = response
    return Rendezvous(state, None, None, None)


def _ended_state(status: CallStatus, headers: Metadata) -> Any:
    """Return what gRPC keeps of a call that ended with this status."""
    state = RpcState((), metadata_of(headers), metadata_of(status.trailing), status.code, status.details)
    state.debug_error_string = status.debug_error_string
    state.callbacks = None  # it is too late for any
    return state


@appears_as(Rendezvous)
class Rpc(Rendezvous):
    """A call under way or over; dropping it cancels the call. state: does not hold this object."""

    def __init__(self, state: CallState) -> None:
        Exception.__init__(self)  # nothing else of gRPC's class is used
        self.state = state

    def __del__(self) -> None:
        if "state" in vars(self) and not sys.is_finalizing():  # then threads are gone, with locks they hold
            self.state.drop()

    @property
    def _state(self) -> Any:
        """What gRPC's own object keeps here, as it stands now: programs read code, details and metadata from it."""
        status = self.state.status
        if status is None:
            return RpcState(("receive_status_on_client",), None, None, None, None)
        return _ended_state(status, self.state.headers())

    # -- grpc.RpcContext ----------------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        """True until the call is over: it has ended, and every response before its end was taken."""
        return not self.state.advance()

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline, None where there is none."""
        deadline = self.state.deadline
        return None if deadline is None else deadline.remaining_s

    def cancel(self) -> bool:
        """End the call as CANCELLED; False when it was over."""
        self.state.advance()
        return self.state.fail(_CANCELLED)

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        """Have `callback()` called when the call is over; False, and no call, when it is already."""
        return self.state.add_callback(callback)

    # -- grpc.Call ----------------------------------------------------------------------------------------------------

    def initial_metadata(self) -> Any:
        """Return the metadata that came first; waits for them, or the end."""
        return metadata_of(self.state.headers())

    def trailing_metadata(self) -> Any:
        """Return the metadata that came with the end; waits for the end."""
        return metadata_of(self._final().trailing)

    def code(self) -> Any:
        """Return the `grpc.StatusCode`; waits for the end."""
        return self._final().code

    def details(self) -> str:
        """Return the text of the status; waits for the end."""
        return self._final().details

    def debug_error_string(self) -> str:
        """Return the status in one line, "" for a success; waits for the end."""
        return self._final().debug_error_string

    def _final(self) -> CallStatus:
        self.state.wait()
        assert self.state.status is not None
        return self.state.status

    # -- grpc.Future --------------------------------------------------------------------------------------------------

    def cancelled(self) -> bool:
        """True when `cancel` ended the call."""
        return self.state.status is _CANCELLED

    def running(self) -> bool:
        """True until the call is over."""
        return self.is_active()

    def done(self) -> bool:
        """True once the call is over."""
        return not self.is_active()

    def result(self, timeout: float | None = None) -> Any:
        """Return the response; None for a stream.

        Raises the call itself when it failed, FutureCancelledError when it was cancelled, FutureTimeoutError.
        """
        if self.exception(timeout) is not None:
            raise self
        return self.state.result

    def exception(self, timeout: float | None = None) -> Any:
        """Return the call itself when it failed, else None. Raises FutureCancelledError, FutureTimeoutError."""
        if not self.state.wait(timeout):
            raise grpc.FutureTimeoutError()
        if self.cancelled():
            raise grpc.FutureCancelledError()
        status = self.state.status
        return None if status is not None and status.code is Code.OK else self

    def traceback(self, timeout: float | None = None) -> TracebackType | None:
        """Return the traceback of the call when it failed, else None.

        Raises FutureCancelledError, FutureTimeoutError.
        """
        if self.exception(timeout) is None:
            return None
        try:
            raise self
        except grpc.RpcError:
            return sys.exc_info()[2]

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        """Have `fn(self)` called when the call is over, at once if it is already."""
        if not self.add_callback(partial(fn, self)):
            fn(self)

    def as_error(self) -> Any:
        """Return what a call that blocked raises when it ended like this one."""
        return failed(self._final(), self.state.headers())

    # -- the iterator -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Rpc:
        return self

    def __next__(self) -> Any:
        response = self.state.take()
        if response is not None:
            return response
        if self.code() is Code.OK:
            raise StopIteration
        raise self

    next = __next__

    def __repr__(self) -> str:
        name, status = Rendezvous.__name__, self.state.status
        if status is None:
            return f"<{name} object>"
        text = f'<{name} of RPC that terminated with:\n\tstatus = {status.code}\n\tdetails = "{status.details}"\n'
        return text + (">" if status.code is Code.OK else f'\tdebug_error_string = "{status.debug_error_string}"\n>')

    __str__ = __repr__
