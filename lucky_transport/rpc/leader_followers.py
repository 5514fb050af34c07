"""Leader/Followers (POSA2): of all threads that wait for records one reads the pipe for the others.

There is no reader thread. The leader reads until its own record came, and then promotes a follower.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from time import monotonic_ns
from typing import Any, Protocol, TypeVar

from lucky_transport.codec.compact import ItemRun, Popped
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.follower_batching import FollowerBatching
from lucky_transport.rpc.pipe import Pipe

__all__ = ["WATCH_S", "Awaited", "LeaderFollowers"]

WATCH_S = 0.0005
_LONG_NS = 1_000_000_000


class _End(Enum):
    """Why a thread stops leading: its record came, its deadline passed, the pipe broke, or it passes the lead on."""

    READY = auto()
    LATE = auto()
    BROKEN = auto()
    PASSED = auto()


class Awaited(Protocol):
    """What threads wait for. gates: one held lock per follower, released by `LeaderFollowers.wake`.

    Where only one thread ever waits, `gates` may be an empty tuple until that thread follows.
    """

    gates: Any


A = TypeVar("A", bound=Awaited)


class LeaderFollowers:
    """Decides which thread reads `pipe`. on_record: handles one record. on_broken: handles the connection's last error.

    While woken threads return at once with their next call (`FollowerBatching`), one thread runs at a time, because two
    would only contend for the interpreter lock: a leader that would have to sleep wakes one follower whose record came
    and follows itself. One follower then polls, and ends the batching when no thread has led for WATCH_S.
    """

    def __init__(
        self, pipe: Pipe, on_record: Callable[[Popped | ItemRun], None], on_broken: Callable[[TransportError], None]
    ) -> None:
        self._pipe = pipe
        self._on_record, self._on_broken = on_record, on_broken
        self._reading = threading.Lock()
        self._shifts = 0  # how often a thread began to read
        self._leading: Awaited | None = None
        self._followers: dict[Any, None] = {}
        self._batching = FollowerBatching()
        self._answered: deque[Any] = deque()  # gates to be opened, one at a time while batching
        self._watching: Any = None  # the gate of the follower that polls

    def wait(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int = 1) -> bool:
        """Return True once `is_ready(awaited)`, False at the deadline; a leader reads up to `batch` records at once."""
        while True:
            end = self._lead(awaited, is_ready, deadline, batch) if self._reading.acquire(blocking=False) else None
            if end is _End.READY:
                return True
            if end is None or end is _End.PASSED:
                in_time = self._follow(awaited, is_ready, deadline, passes=end is not None)
            else:
                in_time = end is _End.BROKEN
            if is_ready(awaited):
                return True
            if not in_time:
                return False

    def read_waiting(self) -> None:
        """Handle the records that are there now, unless another thread leads; never blocks."""
        if self._reading.acquire(blocking=False):
            try:
                while (record := self._pipe.pop_batch(1)) is not None:
                    self._on_record(record)
            except TransportError as error:
                self._on_broken(error)
            finally:
                self._reading.release()
                if self._followers:
                    self._hand_over()

    def wake(self, awaited: Awaited) -> None:
        """Make every thread that waits for `awaited` check again; from any thread."""
        for gate in tuple(awaited.gates):
            _open(gate)
        if self._leading is awaited:
            self._pipe.interrupt()

    def wake_followers(self, awaited: Awaited) -> None:
        """Make the followers that wait for `awaited` check again; from the leader, which checks anyway."""
        gates = awaited.gates
        if gates and self._batching.is_on:
            self._answered.extend(gates)
        elif gates:
            for gate in tuple(gates):
                _open(gate)
            self._batching.note_woken()

    # -- leading ------------------------------------------------------------------------------------------------------

    def _lead(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int) -> _End:
        """Read for all waiting threads. The caller holds the lock; it is released on return."""
        self._shifts += 1
        self._leading = awaited
        pop, on_record = self._pipe.pop_batch, self._on_record
        end = _End.READY
        try:
            while not is_ready(awaited):
                record = pop(batch)
                if record is None:
                    if self._answered:
                        end = _End.PASSED
                        break
                    remaining_ns = _LONG_NS if deadline is None else deadline.at_ns - monotonic_ns()
                    if remaining_ns <= 0:
                        end = _End.LATE
                        break
                    self._pipe.wait(remaining_ns, bool(self._followers))
                    continue
                on_record(record)
                for _ in range(batch - 1):
                    record = pop(batch)
                    if record is None:
                        break
                    on_record(record)
        except TransportError as error:
            end = _End.BROKEN
            self._on_broken(error)
        finally:
            self._leading = None
            self._reading.release()
            if self._followers and end is not _End.PASSED:
                self._hand_over()
        return end

    def _hand_over(self) -> None:
        """Wake the followers whose records came, and promote one unless a follower polls."""
        while self._open_next() is not None:
            pass
        if self._watching is None:
            self._promote()

    def _promote(self) -> None:
        """Wake one follower, which then leads."""
        for gate in tuple(self._followers):
            if _open(gate):
                return

    def _open_next(self) -> Any:
        """Wake the next follower whose record came, and return its gate; None when there is none."""
        while self._answered:
            with contextlib.suppress(IndexError):  # another thread took the last one
                gate = self._answered.popleft()
                if gate in self._followers and _open(gate):
                    self._batching.note_woken()
                    return gate
        return None

    # -- following ----------------------------------------------------------------------------------------------------

    def _follow(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, passes: bool) -> bool:
        """Sleep until there is a reason to check again; False at the deadline. passes: wakes the next one first."""
        self._batching.note_return()
        gate = threading.Lock()
        gate.acquire()
        if awaited.gates == ():
            awaited.gates = []
        gates: list[Any] = awaited.gates
        gates.append(gate)
        self._followers[gate] = None
        try:
            # Checked once more now that the gate is visible: the record may have come before.
            if is_ready(awaited):
                return True
            if passes:
                woken = self._open_next()
                if woken is None:
                    return True
                if self._watching is None or self._watching is woken:
                    self._watching = gate
                    return self._watch(gate, deadline)
            elif not self._reading.locked():
                return True
            return gate.acquire(timeout=-1 if deadline is None else deadline.remaining_s)
        finally:
            del self._followers[gate]
            gates.remove(gate)
            if self._watching is gate:
                self._watching = None
            # A follower that was promoted, or polled, and leaves all the same passes the lead on.
            if self._watching is None and not self._reading.locked():
                self._hand_over()

    def _watch(self, gate: Any, deadline: Deadline | None) -> bool:
        """Sleep as a follower, and lead when no thread has led for WATCH_S; False at the deadline."""
        while self._watching is gate:
            seen = self._shifts
            timeout_s = WATCH_S if deadline is None else min(WATCH_S, deadline.remaining_s)
            if gate.acquire(timeout=timeout_s):
                return True
            if deadline is not None and deadline.expired:
                return False
            if self._shifts == seen:
                self._watching = None
                if not self._reading.locked():
                    self._batching.note_break()
                    return True
        # The leader reads for long. It sees that no follower polls, and promotes one when it stops.
        return gate.acquire(timeout=-1 if deadline is None else deadline.remaining_s)


def _open(gate: Any) -> bool:
    """Open a gate; False when it was open."""
    with contextlib.suppress(RuntimeError):
        gate.release()
        return True
    return False
