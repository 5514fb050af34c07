"""Who waits for calls that nobody waits for: a thread that is there as long as there are any.

Rule 1: it takes its turn at reading like any other thread (`lucky_transport.rpc.turns`), and keeps the deadlines.
Rule 2: what is to be done at a call's end is done on this thread, never by whoever happened to read the end.
Rule 3: with nothing to attend it stays for a moment, for the next call, and then ends.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lucky_transport.deadline import Deadline
from lucky_transport.rpc.turns import Turns

if TYPE_CHECKING:
    from lucky_transport.rpc.client_call import ClientCall

__all__ = ["Attendant"]

_log = logging.getLogger("lucky_transport")
_IDLE_S = 1.0


class Attendant:
    """Attends the calls of one pipe. gates: for `Turns`."""

    def __init__(self, turns: Turns) -> None:
        self.gates: list[Any] = []
        self._turns = turns
        self._calls: dict[ClientCall, Callable[[], None]] = {}
        self._ended: deque[ClientCall] = deque()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, call: ClientCall, on_end: Callable[[], None]) -> None:
        """Attend the call from now on; see `ClientCalls.attend`."""
        with self._lock:
            self._calls[call] = on_end
            call.attendant = self
            if call.is_ended():
                self._ended.append(call)
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="call attendant", daemon=True)
                self._thread.start()
        self._turns.wake(self)

    def note_end(self, call: ClientCall) -> None:
        """The call has ended; called by whoever noticed, with no lock of the call held."""
        self._ended.append(call)
        self._news.set()
        self._turns.wake(self)

    def _run(self) -> None:
        while self._calls or self._news.wait(_IDLE_S) or not self._leave():
            self._news.clear()
            self._finish()
            earliest = self._earliest()
            if self._calls and not self._turns.wait(self, Attendant._has_news, earliest):
                self._expire()

    def _has_news(self) -> bool:
        return self._news.is_set()

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
                except BaseException:  # foreign code; it must not cost the other calls their attendant
                    _log.exception("what was to be done at the end of a call failed")

    def _earliest(self) -> Deadline | None:
        deadlines = [call.deadline for call in tuple(self._calls) if call.deadline is not None]
        return min(deadlines, key=lambda deadline: deadline.at_ns, default=None)

    def _expire(self) -> None:
        for call in tuple(self._calls):
            call.expire()
