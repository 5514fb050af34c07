"""Leader/Followers (POSA2): of all threads that wait for records one reads the pipe for the others.

    a thread that   and                                  does
    arrives         no thread leads                      leads: it reads the pipe for all
    arrives         another one leads                    follows: it sleeps at a gate of its own
    leads           its record came, or its deadline     leaves, and promotes a follower
    follows         its gate opens: its record came      leaves
    follows         its gate opens: it was promoted      leads
    follows         its deadline passes                  leaves, and passes on a promotion that came meanwhile

There is no reader thread. A signal handler may raise after each statement; the order sees to it that no record is lost:

    the leader's statement                    a signal handler that raises then leaves
    for leads in self._attempts: break        the lock acquired and `leads` true: `finally` releases it
    for self.redo in records: break           the record in `redo`: the next leader handles it
    on_record(self.redo)                      the same, from its beginning; nothing once `redo` is None
    self.redo = None                          nothing to be done again

The first two are takes (`lucky_transport.uninterrupted`): one that acquires the lock, or fails to, and one that pops a
record, or None.

`on_record` itself sets `redo` to None before it does what may not be done twice, and only there. It assigns, for a
method would be one more function for each item of a stream:

    ClientCall._take_items              items enter the inbox
    ClientCall.on_envelope              a grant is added to the send window
    ClientCalls._on_client_fragment     a fragment is added to its message
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import repeat
from operator import methodcaller
from typing import Any, Protocol, TypeVar

from lucky_transport.codec.envelope import ItemRun, Popped, TooLong
from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.errors import TransportError
from lucky_transport.fork import on_child
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.uninterrupted import RECHECK_S, open_gate

_LONG_NS = 1_000_000_000


class Awaited(Protocol):
    """What threads wait for. gates: one held lock per follower, released by `LeaderFollowers.wake`.

    Where only one thread ever waits, `gates` may be an empty tuple until that thread follows.
    """

    gates: Any


A = TypeVar("A", bound=Awaited)


def _ignore(_: object) -> None:
    pass


class LeaderFollowers:
    """Decides which thread reads `pipe`.

    on_record: handles one record, from its beginning when it was interrupted. on_broken: handles the connection's last
    error. redo: the record that the next leader handles if the present one is interrupted; see above who sets it.
    """

    def __init__(
        self,
        pipe: Pipe,
        on_record: Callable[[Popped | ItemRun | TooLong], None],
        on_broken: Callable[[TransportError], None],
    ) -> None:
        self._pipe = pipe
        self._on_record, self._on_broken = on_record, on_broken
        self._records = map(methodcaller("pop_batch", 1), repeat(pipe))
        self.redo: Popped | ItemRun | TooLong | None = None
        self._have_none_lead()
        on_child(self._have_none_lead)  # where the leader is a thread of the parent

    def _have_none_lead(self) -> None:
        self._reading = threading.Lock()
        self._attempts = map(self._reading.acquire, repeat(False))
        self._leading: Awaited | None = None
        self._followers: dict[Any, None] = {}

    def forget_owner(self) -> None:
        """Call nobody any more, once the pipe is closed: the owner holds this object, and both are to go without the
        collector of cycles.
        """
        self._on_record = self._on_broken = _ignore

    def wait(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None, batch: int = 1) -> bool:
        """Return True once `is_ready(awaited)`, False at the deadline. A leader checks after each `batch` records, and
        where there are no more.
        """
        records = self._records if batch == 1 else map(self._pipe.pop_batch, repeat(batch))
        on_record = self._on_record
        in_time = True
        while in_time and not is_ready(awaited):
            leads = False
            try:
                for leads in self._attempts:  # noqa: B007 - a take: acquires the lock if it is free
                    break
                if leads:
                    self._leading = awaited
                while leads and in_time and not is_ready(awaited):
                    left = batch  # so many, then it checks again
                    while left:
                        if self.redo is None:
                            for self.redo in records:  # a take: pops a record
                                break
                        if self.redo is None:
                            break
                        on_record(self.redo)
                        self.redo = None
                        left -= 1
                    if left == batch:
                        remaining_ns = _LONG_NS if deadline is None else deadline.at_ns - monotonic_ns()
                        in_time = remaining_ns > 0
                        if in_time:
                            self._pipe.wait(remaining_ns, bool(self._followers))
            except TransportError as error:
                self._on_broken(error)
                self.redo = None  # last: one that breaks the connection does so again if that is interrupted
            finally:
                if leads:
                    self._leading = None
                    self._reading.release()
                    if self._followers:
                        self._promote()
            if not leads:
                in_time = self._follow(awaited, is_ready, deadline)
        return in_time or bool(is_ready(awaited))

    def read_waiting(self) -> None:
        """Handle the records that are there now, unless another thread leads; never blocks."""
        records = self._records
        leads = False
        try:
            for leads in self._attempts:  # noqa: B007 - a take: acquires the lock if it is free
                break
            while leads:  # as a batch of `wait`, without an end
                if self.redo is None:
                    for self.redo in records:  # a take: pops a record
                        break
                if self.redo is None:
                    break
                self._on_record(self.redo)
                self.redo = None
        except TransportError as error:
            self._on_broken(error)
            self.redo = None
        finally:
            if leads:
                self._reading.release()
                if self._followers:
                    self._promote()

    def wake(self, awaited: Awaited) -> None:
        """Make every thread that waits for `awaited` check again; from any thread."""
        self.wake_followers(awaited)
        if self._leading is awaited:
            self._pipe.interrupt()

    def wake_followers(self, awaited: Awaited) -> None:
        """Make the followers that wait for `awaited` check again; from the leader, which checks anyway."""
        for gate in tuple(awaited.gates):
            open_gate(gate)

    def _promote(self) -> None:
        """Wake one follower, which then leads."""
        for gate in tuple(self._followers):
            if open_gate(gate):
                return

    def _follow(self, awaited: A, is_ready: Callable[[A], Any], deadline: Deadline | None) -> bool:
        """Sleep until there is a reason to check again; False at the deadline."""
        gate = threading.Lock()
        gate.acquire()
        if awaited.gates == ():
            awaited.gates = []
        gates: list[Any] = awaited.gates
        try:
            gates.append(gate)
            self._followers[gate] = None
            # Checked once more now that the gate is visible: the record may have come before, or the leader have left.
            if is_ready(awaited) or not self._reading.locked():
                return True
            remaining_s = RECHECK_S if deadline is None else deadline.remaining_s
            return gate.acquire(timeout=min(RECHECK_S, remaining_s)) or deadline is None or not deadline.expired
        finally:
            self._followers.pop(gate, None)
            if gate in gates:
                gates.remove(gate)
            # It may have been promoted and leave all the same: then another follower leads.
            if self._followers and not self._reading.locked():
                self._promote()
