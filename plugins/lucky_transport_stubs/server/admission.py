"""Which calls a server answers, of threads and of asyncio: refusals are in grpc's own words and order.

A server that shuts down takes no call. For every other call the handler is looked up, through the interceptors: a call
without one is refused, then one too many.
"""

from __future__ import annotations

import math
import threading
from typing import Any

from lucky_transport.errors import ClosedError
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.words.status import Code


class Admission:
    """Decides for one server. max_calls: that may run at a time, None for any number: then none need be counted.

    is_refusing: it takes no call any more.
    """

    def __init__(self, max_calls: int | None) -> None:
        self.is_limited = max_calls is not None
        self._max_calls = math.inf if max_calls is None else max_calls
        self._lock = threading.Lock()
        self._running = 0
        self.is_refusing = False

    def turn_away(self, call: ServerCall) -> None:
        """Fail a call whose handler is not even looked up."""
        call.fail(ClosedError("the server is shutting down", backend="shm"))

    def admits(self, state: ServerCallState, handler: Any, has_entered: bool | None = None) -> bool:
        """Return True when the call may run: it is counted then, until `leave`. Else it has been failed.

        handler: None where there is none. has_entered: what `enter` returned, for a call that was counted before.
        """
        if handler is None:
            state.fail(Code.UNIMPLEMENTED, "Method not found!")
        elif not (self.enter() if has_entered is None else has_entered):
            state.fail(Code.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        else:
            return True
        return False

    def enter(self) -> bool:
        """Count a call that begins; False when there are too many already."""
        with self._lock:
            if self._running >= self._max_calls:
                return False
            self._running += 1
            return True

    def leave(self) -> None:
        """Count a call that has ended."""
        with self._lock:
            self._running -= 1
