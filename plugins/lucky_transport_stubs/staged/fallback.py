"""A read that returns a future: gRPC answers it where shared memory is unreachable or dies before the answer.

The caller holds one object for both calls; dropping it ends the call that there is.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from lucky_transport.uninterrupted import Latch
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import Rendezvous, appears_as


@appears_as(Rendezvous)
class FallbackFuture(Rendezvous):
    """call: the first one. instead: given that once it is over, returns the call that takes its place, None for none.
    Where it raises the first call stands.

    left: called when no other call is made: the caller has cancelled or dropped this object, or `instead` raised.
    """

    def __init__(self, call: Any, instead: Callable[[Any], Any], left: Callable[[], None]) -> None:
        Exception.__init__(self)  # nothing else of gRPC's class is used
        self._call = call
        self._instead = instead
        self._left = left
        self._is_cancelled = False
        self._callbacks: list[Callable[[], Any]] = []
        self._lock = threading.RLock()
        self._settled = Latch()
        over = partial(_settle, weakref.ref(self), left)
        if not call.add_callback(over):
            over()

    def settle(self) -> None:
        """The first call is over: take its answer, or make the second call. Runs once, on grpc's thread."""
        call = None
        try:
            if self._is_cancelled:
                self._left()
            else:
                call = self._instead(self._call)
        except Exception:  # its channel is closed, or the request cannot be serialized again: the first call stands
            self._left()
        with self._lock:
            self._call = call or self._call
            self._settled.set()
            callbacks, self._callbacks = self._callbacks, []
        if self._is_cancelled:
            self._call.cancel()  # it was made in the meantime
        for callback in callbacks:
            if not self._call.add_callback(callback):
                callback()

    def __del__(self) -> None:
        """Leave the end to the call, which is dropped too."""

    @property
    def _state(self) -> Any:
        return self._call._state

    # -- grpc.RpcContext ----------------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        """Return True until the answer is known."""
        return not self._settled.is_set or self._call.is_active()

    def time_remaining(self) -> Any:
        """Return the seconds until the deadline, None where there is none."""
        return self._call.time_remaining()

    def cancel(self) -> bool:
        """End the call; False when it was over."""
        with self._lock:
            self._is_cancelled = True
            call = self._call
        return call.cancel()

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        """Have `callback()` called when the answer is known; False, and no call, when it is already."""
        with self._lock:
            if not self._settled.is_set:
                self._callbacks.append(callback)
                return True
        return self._call.add_callback(callback)

    # -- grpc.Call ----------------------------------------------------------------------------------------------------

    def initial_metadata(self) -> Any:
        """Return the metadata that came first; waits for the answer."""
        return self._final().initial_metadata()

    def trailing_metadata(self) -> Any:
        """Return the metadata that came with the end; waits for the end."""
        return self._final().trailing_metadata()

    def code(self) -> Any:
        """Return the `grpc.StatusCode`; waits for the end."""
        return self._final().code()

    def details(self) -> Any:
        """Return the text of the status; waits for the end."""
        return self._final().details()

    def debug_error_string(self) -> str:
        """Return the status in one line, "" for a success; waits for the end."""
        return self._final().debug_error_string()

    # -- grpc.Future --------------------------------------------------------------------------------------------------

    def cancelled(self) -> bool:
        """Return True when `cancel` ended the call."""
        return self._call.cancelled()

    def running(self) -> bool:
        """Return True until the answer is known."""
        return self.is_active()

    def done(self) -> bool:
        """Return True once the answer is known."""
        return not self.is_active()

    def result(self, timeout: float | None = None) -> Any:
        """Return the response; raises the failed call, FutureCancelledError, FutureTimeoutError."""
        return self._in_time(timeout, lambda call, left_s: call.result(left_s))

    def exception(self, timeout: float | None = None) -> Any:
        """Return the failed call, None for a success; raises FutureCancelledError, FutureTimeoutError."""
        return self._in_time(timeout, lambda call, left_s: call.exception(left_s))

    def traceback(self, timeout: float | None = None) -> TracebackType | None:
        """Return the traceback of the failed call, None for a success.

        Raises FutureCancelledError, FutureTimeoutError.
        """
        return self._in_time(timeout, lambda call, left_s: call.traceback(left_s))

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        """Have `fn(self)` called when the answer is known, at once if it is already."""
        if not self.add_callback(partial(fn, self)):
            fn(self)

    def __next__(self) -> Any:
        return next(self._final())

    next = __next__

    def __repr__(self) -> str:
        return repr(self._call)

    __str__ = __repr__

    def _final(self) -> Any:
        """Return the call that stands; waits for the first one to be over."""
        self._settled.wait()
        return self._call

    def _in_time(self, timeout: float | None, read: Callable[[Any, float | None], Any]) -> Any:
        if timeout is None:
            return read(self._final(), None)
        until = time.monotonic() + timeout
        if not self._settled.wait(max(0.0, timeout)):
            raise grpc.FutureTimeoutError()
        return read(self._call, max(0.0, until - time.monotonic()))


def _settle(future: weakref.ref[FallbackFuture], left: Callable[[], None]) -> None:
    """The first call of a future is over."""
    if (found := future()) is not None:
        found.settle()
    else:
        left()
