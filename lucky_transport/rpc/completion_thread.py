"""A thread that waits for asynchronous calls and runs what follows their ends, while there are any."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lucky_transport.deadline import Deadline
from lucky_transport.rpc.leader_followers import LeaderFollowers

if TYPE_CHECKING:
    from lucky_transport.rpc.client_call import ClientCall

__all__ = ["CompletionThread"]

_log = logging.getLogger("lucky_transport")
_IDLE_S = 1.0


class CompletionThread:
    """Completes the asynchronous calls of one pipe, and keeps their deadlines. gates: see `Awaited`.

    It waits among the `LeaderFollowers` like any other thread. What follows a call's end runs here, never on the thread
    that happened to read the end. Without calls it stays for a moment, for the next one, and then ends.
    """

    def __init__(self, waiters: LeaderFollowers) -> None:
        self.gates: list[Any] = []
        self._waiters = waiters
        self._calls: dict[ClientCall, Callable[[], None]] = {}
        self._ended: deque[ClientCall] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, call: ClientCall, on_end: Callable[[], None]) -> None:
        """Run `on_end` on this thread once the call has ended."""
        with self._lock:
            self._calls[call] = on_end
            call.completion_thread = self
            if call.is_ended():
                self._ended.append(call)
            self._changed.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="call completion", daemon=True)
                self._thread.start()
        self._waiters.wake(self)

    def note_end(self, call: ClientCall) -> None:
        """Note that the call has ended; from any thread that holds no lock of the call."""
        self._ended.append(call)
        self._changed.set()
        self._waiters.wake(self)

    def _run(self) -> None:
        while self._calls or self._changed.wait(_IDLE_S) or not self._leave():
            self._changed.clear()
            self._finish()
            earliest = self._earliest()
            if self._calls and not self._waiters.wait(self, CompletionThread._has_changed, earliest):
                self._expire()

    def _has_changed(self) -> bool:
        return self._changed.is_set()

    def _leave(self) -> bool:
        """End this thread unless there is something to do after all."""
        with self._lock:
            if self._calls or self._ended:
                return False
            self._thread = None
            return True

    def _finish(self) -> None:
        while self._ended:
            on_end = self._calls.pop(self._ended.popleft(), None)
            if on_end is not None:
                try:
                    on_end()
                except BaseException:  # foreign code; it must not end the thread of the other calls
                    _log.exception("what was to be done at the end of a call failed")

    def _earliest(self) -> Deadline | None:
        deadlines = [call.deadline for call in tuple(self._calls) if call.deadline is not None]
        return min(deadlines, key=lambda deadline: deadline.at_ns, default=None)

    def _expire(self) -> None:
        for call in tuple(self._calls):
            call.expire()
