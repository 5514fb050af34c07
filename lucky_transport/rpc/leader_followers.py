"""Leader/Followers (POSA2): of all threads that wait for records one reads the pipe for the others.

    a thread that   and                                  does
    arrives         no thread leads                      leads: it reads the pipe for all
    arrives         another one leads                    follows: it sleeps at a gate of its own
    leads           its record came, or its deadline     leaves, and promotes a follower
    follows         its gate opens: its record came      leaves
    follows         its gate opens: it was promoted      leads
    follows         its deadline passes                  leaves, and passes on a promotion that came meanwhile

There is no reader thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Protocol, TypeVar

from lucky_transport.codec.envelope import ItemRun, Popped
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.rpc.pipe import Pipe

__all__ = ["Awaited", "LeaderFollowers"]

_LONG_NS = 1_000_000_000


class Awaited(Protocol):
    """What threads wait for. gates: one held lock per follower, released by `LeaderFollowers.wake`.

    Where only one thread ever waits, `gates` may be an empty tuple until that thread follows.
    """

    gates: Any


A = TypeVar("A", bound=Awaited)


class LeaderFollowers:
    """Decides which thread reads `pipe`.

    on_record: handles one record. on_broken: handles the connection's last error.
    """

    def __init__(
        self, pipe: Pipe, on_record: Callable[[Popped | ItemRun], None], on_broken: Callable[[TransportError], None]
    ) -> None:
        self._pipe = pipe
        self._on_record, self._on_broken = on_record, on_broken
        self._reading = threading.Lock()
        self._leading: Awaited | None = None
        self._followers: dict[Any, None] = {}

    def wait(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int = 1) -> bool:
        """Return True once `is_ready(awaited)`, False at the deadline; a leader reads up to `batch` records at once."""
        pop, on_record = self._pipe.pop_batch, self._on_record
        in_time = True
        while in_time and not is_ready(awaited):
            if not self._reading.acquire(blocking=False):
                in_time = self._follow(awaited, is_ready, deadline)
                continue
            self._leading = awaited
            try:
                while not is_ready(awaited):
                    record = pop(batch)
                    if record is None:
                        remaining_ns = _LONG_NS if deadline is None else deadline.at_ns - monotonic_ns()
                        if remaining_ns <= 0:
                            in_time = False
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
                self._on_broken(error)
            finally:
                self._leading = None
                self._stop_reading()
        return in_time or bool(is_ready(awaited))

    def read_waiting(self) -> None:
        """Handle the records that are there now, unless another thread leads; never blocks."""
        if self._reading.acquire(blocking=False):
            try:
                while (record := self._pipe.pop_batch(1)) is not None:
                    self._on_record(record)
            except TransportError as error:
                self._on_broken(error)
            finally:
                self._stop_reading()

    def wake(self, awaited: Awaited) -> None:
        """Make every thread that waits for `awaited` check again; from any thread."""
        self.wake_followers(awaited)
        if self._leading is awaited:
            self._pipe.interrupt()

    def wake_followers(self, awaited: Awaited) -> None:
        """Make the followers that wait for `awaited` check again; from the leader, which checks anyway."""
        for gate in tuple(awaited.gates):
            _open(gate)

    def _stop_reading(self) -> None:
        self._reading.release()
        if self._followers:
            self._promote()

    def _promote(self) -> None:
        """Wake one follower, which then leads."""
        for gate in tuple(self._followers):
            if _open(gate):
                return

    def _follow(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None) -> bool:
        """Sleep until there is a reason to check again; False at the deadline."""
        gate = threading.Lock()
        gate.acquire()
        if awaited.gates == ():
            awaited.gates = []
        gates: list[Any] = awaited.gates
        gates.append(gate)
        self._followers[gate] = None
        try:
            # Checked once more now that the gate is visible: the record may have come before, or the leader have left.
            if is_ready(awaited) or not self._reading.locked():
                return True
            return gate.acquire(timeout=-1 if deadline is None else deadline.remaining_s)
        finally:
            del self._followers[gate]
            gates.remove(gate)
            # It may have been promoted and leave all the same: then another follower leads.
            if self._followers and not self._reading.locked():
                self._promote()


def _open(gate: Any) -> bool:
    """Open a gate; False when it was open."""
    try:
        gate.release()
    except RuntimeError:
        return False
    return True
