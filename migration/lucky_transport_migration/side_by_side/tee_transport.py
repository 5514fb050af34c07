"""A transport that is several: whatever is done is done over each of them and compared at once.

    with SideBySideTransport({"grpc": a, "shm": b}, rules, counts) as transport:
        env = VectorEnv(transport)            # every step and reset is compared
        client = Client(transport)            # every typed call too

The caller gets what the first member answered, or the error it raised. Every member gets everything once, in the same
order; a member has an engine of its own. The first difference raises `Mismatch`, and so does everything that is done
after it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Capabilities, Frame, Stream, Transport
from lucky_transport_migration.compare.difference import LocatedDifference
from lucky_transport_migration.compare.frames import FrameTables, spec_difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.call_answers import CallResult
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.event import (
    Asked,
    Attempt,
    Event,
    RecordedExchange,
    attempt,
    difference,
    left_out,
)
from lucky_transport_migration.side_by_side.mismatch import Mismatch

__all__ = ["SideBySideTransport"]

_FLAGS = ("lockstep", "hold", "commands", "streams")


class SideBySideTransport(Transport):
    """`members` by name, the baseline first; closing it closes all. `mismatch` is set once something differed."""

    def __init__(self, members: Mapping[str, Transport], rules: ComparisonRules, counts: ComparisonCounts) -> None:
        first = next(iter(members.values()))
        self.name = " and ".join(members)
        self.spec = first.spec
        self.capabilities = _common([member.capabilities for member in members.values()])
        self.actions = np.zeros(first.spec.action_shape, first.spec.action.dtype)
        self.mismatch: Mismatch | None = None
        self._members = dict(members)
        self._rules = rules
        self._counts = counts
        self._sent: tuple[NDArray[Any], NDArray[np.uint8] | None] = (self.actions, None)
        self._tables = {name: FrameTables(member.spec) for name, member in members.items()}
        self._exchanges = 1  # the number of the next one
        self._refuse(spec_difference({name: one.spec for name, one in members.items()}, "side by side", rules))

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._check()
        self._sent = (np.array(actions), None if control is None else control.copy())
        attempts = self._attempt(lambda member: member.send(actions, control))
        if any(one.error is not None for one in attempts.values()):
            self._compare({name: self._exchange(name, one) for name, one in attempts.items()})
        next(iter(attempts.values())).outcome()
        self.out_of_bounds = next(iter(self._members.values())).out_of_bounds

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check()
        attempts = self._attempt(lambda member: member.recv(deadline))
        self._compare({name: self._exchange(name, one) for name, one in attempts.items()})
        first = next(iter(attempts.values()))
        self._exchanges += not isinstance(first.error, PeerTimeout)
        return first.outcome()

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check()
        # each gets a copy: an engine in this process may keep what it is given
        attempts = self._attempt(lambda member: member.call(method, copy.deepcopy(request), deadline))
        number = self._counts.events
        self._compare({name: Asked(number, method, request, _answer(one)) for name, one in attempts.items()})
        return next(iter(attempts.values())).outcome()

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check()
        self._counts.leave_out(
            f"items of {method.name}",
            "which states a stream shows hangs on the clock; `lucky-transport parity` compares streams of a world that "
            "stands still",
        )
        return next(iter(self._members.values())).stream(method, request, deadline, copy=copy)

    def implements(self, method: Method) -> bool | None:
        return next(iter(self._members.values())).implements(method)

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def _attempt(self, use: Callable[[Transport], Any]) -> dict[str, Attempt]:
        return {name: attempt(use, member) for name, member in self._members.items()}

    def _exchange(self, name: str, made: Attempt) -> RecordedExchange:
        actions, control = self._sent
        if made.value is None:
            return RecordedExchange(self._exchanges, actions, control, error=made.text)
        table = self._tables[name].table(made.value, self._members[name].out_of_bounds)
        return RecordedExchange(self._exchanges, actions, control, table)

    def _compare(self, events: Mapping[str, Event]) -> None:
        """Count what all answered; raises Mismatch where one differs from the first."""
        baseline, *others = events.items()
        for other in others:
            self._refuse(difference(baseline, other, self._rules))
        self._counts.add(baseline[1])
        for what, why in left_out(baseline[1], self._rules):
            self._counts.leave_out(what, why)

    def _refuse(self, found: LocatedDifference | None) -> None:
        """Count a difference and raise it, now and whatever is done from now on."""
        if found is not None:
            self._counts.differ(found)
            self.mismatch = Mismatch(found, self._counts)
            raise self.mismatch

    def _check(self) -> None:
        if self.mismatch is not None:
            raise self.mismatch


def _common(all_of_them: list[Capabilities]) -> Capabilities:
    """Return what every member can do, and nothing that the tee itself does not pass on."""
    return Capabilities(**{flag: all(getattr(one, flag) for one in all_of_them) for flag in _FLAGS})


def _answer(made: Attempt) -> CallResult:
    return CallResult(error=made.text) if made.error is not None else CallResult([made.value])
