"""Leader and followers: of all threads that wait for records, one reads for everybody; no thread of our own.

Rule 1: who waits and finds nobody reading reads himself, until he has what he waited for; then he wakes a follower,
        who reads on.
Rule 2: a thread whose record was read by another is woken at once; one whose deadline passes returns by itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

from lucky_transport.calls.pipe import Pipe
from lucky_transport.codec.plain import Plain
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError

__all__ = ["Awaited", "Turns"]

_LONG_NS = 1_000_000_000


class Awaited(Protocol):
    """What threads wait for. `gates`: one lock per thread that follows; `Turns.wake` opens them."""

    gates: list[Any]


class Turns:
    """Who reads `pipe`. `on_record` handles one record, `on_broken` the error that ended the connection."""

    def __init__(
        self, pipe: Pipe, on_record: Callable[[Plain | bytes], None], on_broken: Callable[[TransportError], None]
    ) -> None:
        self._pipe = pipe
        self._pop, self._wait = pipe.pop_plain, pipe.wait
        self._on_record, self._on_broken = on_record, on_broken
        self._reading = threading.Lock()
        self._leading: Awaited | None = None
        self._followers: dict[Any, None] = {}

    def wait(self, awaited: Awaited, is_ready: Callable[[], Any], deadline: Deadline | None, batch: int = 1) -> bool:
        """Return True once `is_ready()`, False at the deadline; reads up to `batch` records at once when it leads."""
        while not is_ready():
            if self._reading.acquire(blocking=False):
                try:
                    self._leading = awaited
                    in_time = self._lead(is_ready, deadline, batch)
                except TransportError as error:
                    self._on_broken(error)
                    in_time = True
                finally:
                    self._leading = None
                    self._reading.release()
                    if self._followers:
                        self._promote()
            else:
                in_time = self._follow(awaited, is_ready, deadline)
            if not in_time and not is_ready():
                return False
        return True

    def read_waiting(self) -> None:
        """Handle the records that are there now, unless somebody reads already; never blocks."""
        if self._reading.acquire(blocking=False):
            try:
                while (record := self._pop()) is not None:
                    self._on_record(record)
            except TransportError as error:
                self._on_broken(error)
            finally:
                self._reading.release()
                if self._followers:
                    self._promote()

    def wake(self, awaited: Awaited) -> None:
        """Have every thread that waits for it look again; from any thread."""
        self.wake_followers(awaited)
        if self._leading is awaited:
            self._pipe.interrupt()

    def wake_followers(self, awaited: Awaited) -> None:
        """As `wake`, from the thread that reads, which looks again anyway."""
        for gate in tuple(awaited.gates):
            _open(gate)

    def _lead(self, is_ready: Callable[[], Any], deadline: Deadline | None, batch: int) -> bool:
        pop, on_record = self._pop, self._on_record
        while not is_ready():
            record = pop()
            if record is None:
                remaining_ns = _LONG_NS if deadline is None else deadline.remaining_ns
                if not remaining_ns:
                    return False
                self._wait(remaining_ns, bool(self._followers))
                continue
            on_record(record)
            for _ in range(batch - 1):
                record = pop()
                if record is None:
                    break
                on_record(record)
        return True

    def _follow(self, awaited: Awaited, is_ready: Callable[[], Any], deadline: Deadline | None) -> bool:
        gate = threading.Lock()
        gate.acquire()
        awaited.gates.append(gate)
        self._followers[gate] = None
        try:
            # Looked at once more now that both can be seen: who leads may have finished before.
            if is_ready() or not self._reading.locked():
                return True
            return gate.acquire(timeout=-1 if deadline is None else deadline.remaining_s)
        finally:
            del self._followers[gate]
            awaited.gates.remove(gate)
            # A follower that was told to lead, and leaves all the same, passes it on.
            if self._followers and not self._reading.locked():
                self._promote()

    def _promote(self) -> None:
        """Wake one follower, who then leads."""
        for gate in tuple(self._followers):
            if _open(gate):
                return


def _open(gate: Any) -> bool:
    """Open a gate; False when it was open."""
    with contextlib.suppress(RuntimeError):
        gate.release()
        return True
    return False
