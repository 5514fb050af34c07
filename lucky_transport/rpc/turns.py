"""Leader and followers: of all threads that wait for records, one reads for everybody; no thread of our own.

Rule 1: who waits and finds nobody reading reads himself, until he has what he waited for; then he wakes a follower,
        who reads on.
Rule 2: a thread whose record was read by another is woken at once; one whose deadline passes returns by itself.
Rule 3: in a relay (`lucky_transport.rpc.relay`) one thread runs at a time, since two would only contend for the
        interpreter: who has read all there is, and has to wait, wakes one thread whose record came, and sleeps; that
        one will read next. One of the sleepers keeps watch, and ends the relay when nobody has read for WATCH_S.
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
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.rpc.relay import Relay

__all__ = ["WATCH_S", "Awaited", "Turns"]

WATCH_S = 0.0005
_LONG_NS = 1_000_000_000


class _End(Enum):
    """Why a thread no longer reads: it has what it waited for, its time or the connection is over, another goes on."""

    READY = auto()
    LATE = auto()
    BROKEN = auto()
    PASSED = auto()


class Awaited(Protocol):
    """What threads wait for. `gates`: one lock per thread that follows; `Turns.wake` opens them. Where only one thread
    ever waits, it may be an empty tuple until that one follows.
    """

    gates: Any


A = TypeVar("A", bound=Awaited)


class Turns:
    """Who reads `pipe`. `on_record` handles one record, `on_broken` the error that ended the connection."""

    def __init__(
        self, pipe: Pipe, on_record: Callable[[Popped | ItemRun], None], on_broken: Callable[[TransportError], None]
    ) -> None:
        self._pipe = pipe
        self._on_record, self._on_broken = on_record, on_broken
        self._reading = threading.Lock()
        self._shifts = 0  # how often a thread began to read
        self._leading: Awaited | None = None
        self._followers: dict[Any, None] = {}
        self._relay = Relay()
        self._answered: deque[Any] = deque()  # gates to be opened, in a relay one at a time
        self._watching: Any = None  # the gate of who keeps watch

    def wait(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int = 1) -> bool:
        """Return True once `is_ready(awaited)`, False at the deadline; reads up to `batch` records at once when it
        leads.
        """
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
        """Handle the records that are there now, unless somebody reads already; never blocks."""
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
        """Have every thread that waits for it look again; from any thread."""
        for gate in tuple(awaited.gates):
            _open(gate)
        if self._leading is awaited:
            self._pipe.interrupt()

    def wake_followers(self, awaited: Awaited) -> None:
        """As `wake`, from the thread that reads, which looks again anyway."""
        gates = awaited.gates
        if gates and self._relay.is_on:
            self._answered.extend(gates)
        elif gates:
            for gate in tuple(gates):
                _open(gate)
            self._relay.note_woken()

    # -- leading ------------------------------------------------------------------------------------------------------

    def _lead(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int) -> _End:
        """Read for everybody; the lock is held, and is not when this returns."""
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
        """Nobody reads any more: wake whose records came, and see to it that somebody reads on."""
        while self._open_next() is not None:
            pass
        if self._watching is None:
            self._promote()

    def _promote(self) -> None:
        """Wake one follower, who then leads."""
        for gate in tuple(self._followers):
            if _open(gate):
                return

    def _open_next(self) -> Any:
        """Wake the next thread whose record came, and return its gate; None when there is none."""
        while self._answered:
            with contextlib.suppress(IndexError):  # another thread was quicker
                gate = self._answered.popleft()
                if gate in self._followers and _open(gate):
                    self._relay.note_woken()
                    return gate
        return None

    # -- following ----------------------------------------------------------------------------------------------------

    def _follow(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, passes: bool) -> bool:
        """Sleep until there is reason to look again; False at the deadline. passes: once it has woken the next one."""
        self._relay.note_return()
        gate = threading.Lock()
        gate.acquire()
        if awaited.gates == ():
            awaited.gates = []
        gates: list[Any] = awaited.gates
        gates.append(gate)
        self._followers[gate] = None
        try:
            # Looked at once more now that both can be seen: who leads may have finished before.
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
            # A follower that was told to lead, or kept watch, and leaves all the same, passes it on.
            if self._watching is None and not self._reading.locked():
                self._hand_over()

    def _watch(self, gate: Any, deadline: Deadline | None) -> bool:
        """As a follower sleeps, and see to it meanwhile that somebody reads."""
        while self._watching is gate:
            seen = self._shifts
            nap_s = WATCH_S if deadline is None else min(WATCH_S, deadline.remaining_s)
            if gate.acquire(timeout=nap_s):
                return True
            if deadline is not None and deadline.expired:
                return False
            if self._shifts == seen:
                self._watching = None
                if not self._reading.locked():
                    self._relay.note_break()
                    return True
        # Who reads does so for long; he will see that nobody keeps watch, and wake a follower when he leaves.
        return gate.acquire(timeout=-1 if deadline is None else deadline.remaining_s)


def _open(gate: Any) -> bool:
    """Open a gate; False when it was open."""
    with contextlib.suppress(RuntimeError):
        gate.release()
        return True
    return False
