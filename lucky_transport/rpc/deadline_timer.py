"""Ends calls at their deadline although their handler waits for something else.

A caller's own clock ends its call, and its cancel arrives here; this is for a caller that hangs. The thread that reads
ends its wait at the next deadline, so that no call needs a timer or a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lucky_transport.errors import PeerTimeout
from lucky_transport.rpc.server_call import ServerCall

_NEVER_NS = 1 << 63


class DeadlineTimer:
    """The deadlines of the calls that asked for it; most are answered long before anything depends on theirs.

    wake: called when `timeout_ns` has become shorter. One thread calls `expire` whenever `timeout_ns` is over; any
    thread may call `watch`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._at_ns: dict[ServerCall, int] = {}
        self._next_ns = _NEVER_NS

    def __len__(self) -> int:
        """Return how many calls are watched."""
        return len(self._at_ns)

    def watch(self, call: ServerCall) -> None:
        """End the call at its deadline, if it has one."""
        if call.deadline is None:
            return
        at_ns = call.deadline.at_ns
        with self._lock:
            self._at_ns[call] = at_ns
            is_next = at_ns < self._next_ns
            if is_next:
                self._next_ns = at_ns
        call.call.on_end(lambda: self._forget(call))
        if is_next:
            self._wake()

    def _forget(self, call: ServerCall) -> None:
        with self._lock:
            self._at_ns.pop(call, None)

    def timeout_ns(self, most: int) -> int:
        """Return the nanoseconds until `expire` has something to do, `most` at most."""
        return max(0, min(most, self._next_ns - time.monotonic_ns()))

    def expire(self) -> None:
        """End the calls whose deadline has passed; nothing is sent to their callers, whose own clocks end them."""
        now = time.monotonic_ns()
        if now < self._next_ns:
            return
        with self._lock:
            due = [call for call, at_ns in self._at_ns.items() if at_ns <= now]
            self._next_ns = min((at_ns for at_ns in self._at_ns.values() if at_ns > now), default=_NEVER_NS)
        for call in due:
            call.lose(PeerTimeout(f"{call.name}: its caller waited until its deadline and no longer"))
