"""A thread that waits for asynchronous calls and runs what follows their ends, while there are any."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.rpc.leader_followers import LeaderFollowers
from lucky_transport.uninterrupted import open_gate, start_thread

_IDLE_S = 1.0
_HAS_CHANGED = attrgetter("_has_changed")


class AsyncCall(Protocol):
    """What is used of a call here; `ClientCall` says what each does."""

    deadline: Deadline | None
    completion_thread: CompletionThread | None

    def is_ended(self) -> bool: ...

    def expire(self) -> None: ...


class CallGroup:
    """Calls with a completion thread of their own, which may end before their connection does: those of one channel.

    error: why none of them begins or goes on; it is set before `ClientCalls.end_calls`.
    """

    error: TransportError | None = None


#: All calls that end by themselves or with their connection.
NO_GROUP = CallGroup()


class CompletionThread:
    """Completes the asynchronous calls of one group over one pipe, and keeps their deadlines. gates: see `Awaited`.

    It waits among the `LeaderFollowers` like any other thread. What follows a call's end runs here, never on the thread
    that happened to read the end. Without calls it stays for a moment, for the next one, and then ends.
    """

    def __init__(self, waiters: LeaderFollowers) -> None:
        self.gates: list[Any] = []
        self._waiters = waiters
        self._calls: dict[AsyncCall, Callable[[], None]] = {}
        self._ended: deque[AsyncCall] = deque()
        self._lock = threading.Lock()
        self._has_changed = False
        self._idle = threading.Lock()  # released to end a wait without calls
        self._thread: dict[int, threading.Thread] = {}  # one at most, at 0

    def watch(self, call: AsyncCall, on_end: Callable[[], None]) -> None:
        """Run `on_end` on this thread once the call has ended."""
        with self._lock:
            self._calls[call] = on_end
            call.completion_thread = self
            if call.is_ended():
                self._ended.append(call)
            self._has_changed = True
            if not self._thread:
                thread = threading.Thread(target=self._run, name="call completion", daemon=True)
                start_thread(thread)
                self._thread.setdefault(0, thread)
        open_gate(self._idle)
        self._waiters.wake(self)

    def note_end(self, call: AsyncCall) -> None:
        """Note that the call has ended; from any thread that holds no lock of the call."""
        self._ended.append(call)
        self._has_changed = True
        open_gate(self._idle)
        self._waiters.wake(self)

    def _run(self) -> None:
        this = threading.current_thread()
        if self._thread.setdefault(0, this) is not this:
            return  # a signal handler raised in what started the other one
        while self._calls or self._idle.acquire(timeout=_IDLE_S) or not self._leave():
            self._has_changed = False
            self._finish()
            earliest = self._earliest()
            if self._calls and not self._waiters.wait(self, _HAS_CHANGED, earliest):
                self._expire()

    def _leave(self) -> bool:
        """End this thread unless there is something to do after all."""
        with self._lock:
            if self._calls or self._ended:
                return False
            self._thread.clear()
            return True

    def _finish(self) -> None:
        while self._ended:
            on_end = self._calls.pop(self._ended.popleft(), None)
            if on_end is not None:
                run_unwaited("what was to be done at the end of a call", on_end)

    def _earliest(self) -> Deadline | None:
        deadlines = [call.deadline for call in tuple(self._calls) if call.deadline is not None]
        return min(deadlines, key=lambda deadline: deadline.at_ns, default=None)

    def _expire(self) -> None:
        for call in tuple(self._calls):
            call.expire()
