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
from lucky_transport.engine import RESET
from lucky_transport.errors import PeerTimeout
from lucky_transport.messages.methods import Method
from lucky_transport.routing import Decision
from lucky_transport.transport import Capabilities, ForwardingTransport, Frame, Stream, Transport
from lucky_transport_migration.compare.arrays import FrameTables, first_difference, left_out, spec_difference
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference, short
from lucky_transport_migration.compare.rules import UNSEEN, ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import PROOF
from lucky_transport_migration.parity.call_answers import PATIENCE_S, answered
from lucky_transport_migration.parity.parity_evidence import located
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts, Mismatch

_FLAGS = ("lockstep", "hold", "commands", "streams")


class SideBySideTransport(ForwardingTransport):
    """`members` by name, the baseline first; closing it closes all. `mismatch` is set once something differed."""

    def __init__(self, members: Mapping[str, Transport], rules: ComparisonRules, counts: ComparisonCounts) -> None:
        first = next(iter(members.values()))
        super().__init__(first)
        self.name = " and ".join(members)
        self.capabilities = _common([member.capabilities for member in members.values()])
        self.actions = np.zeros(first.spec.action_shape, first.spec.action.dtype)
        self.mismatch: Mismatch | None = None
        self._members = dict(members)
        self._rules = rules
        self._counts = counts
        self._event = "step"  # what the exchange under way is called
        self._tables = {name: FrameTables(member.spec) for name, member in members.items()}
        self._exchanges = 1  # the number of the next one
        self._is_under_way = False
        self._early: dict[str, CallOutcome] | None = None  # the frames of the exchange under way
        self._refuse(spec_difference({name: one.spec for name, one in members.items()}, "side by side", rules))

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._check()
        self._event = "reset" if control is not None and (control & RESET).any() else "step"
        answers = self._ask(lambda member: member.send(actions, control))
        if any(one.raised is not None for one in answers.values()):
            self._compare_exchange(answers)
        _outcome(answers)
        self._is_under_way = True

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check()
        self._is_under_way = False
        answers, self._early = self._early or self._ask(lambda member: member.recv(deadline)), None
        self._compare_exchange(answers)
        self._is_under_way = isinstance(next(iter(answers.values())).raised, PeerTimeout)
        self._exchanges += not self._is_under_way
        return _outcome(answers)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check()
        if self._is_under_way and self._early is None:  # which state a call shows beside a step hangs on the clock
            self._early = self._ask(lambda member: member.recv(Deadline(PATIENCE_S)))
        # each gets a copy: an engine in this process may keep what it is given
        answers = self._ask(lambda member: member.call(method, copy.deepcopy(request), deadline))
        self._compare_call(method, request, answers)
        return _outcome(answers)

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        self._check()
        self._counts.not_compared.setdefault(
            f"items of {method.name}",
            "which states a stream shows hangs on the clock; `lucky-transport parity` compares streams of a world that "
            "stands still",
        )
        return self._inner.stream(method, request, deadline, copy=copy)

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def _ask(self, use: Callable[[Transport], Any]) -> dict[str, CallOutcome]:
        """Return what each member gave, or raised."""

        def asked(member: Transport) -> CallOutcome:
            return answered(member.name, lambda _, items: items.append(use(member)))

        return {name: asked(member) for name, member in self._members.items()}

    def _compare_exchange(self, answers: Mapping[str, CallOutcome]) -> None:
        """Count an exchange that all members answered alike; raises Mismatch where one differs from the first."""
        tables = {name: self._table(name, one) for name, one in answers.items()}
        (name, mine), *others = answers.items()
        for other_name, other in others:
            if mine.details != other.details:
                found = Difference("error", "error", mine.details or "no error", other.details or "no error")
            else:
                found = first_difference(tables[name], tables[other_name], self._rules)
            place = AtMove("side by side", self._exchanges, self._event)
            self._refuse(found and LocatedDifference(found, (name, other_name), place))
        self._counts.exchanges += 1
        self._counts.values += sum(array.size for array in tables[name].values())
        for what, why in left_out(tables[name], self._rules):
            self._counts.not_compared.setdefault(what, why)

    def _table(self, name: str, answer: CallOutcome) -> Mapping[str, NDArray[Any]]:
        """Return the named arrays of a frame, none where there is no frame."""
        frame = answer.items[0] if answer.items else None
        return {} if frame is None else self._tables[name].table(frame, self._members[name].out_of_bounds)

    def _compare_call(self, method: Method, request: Any, answers: Mapping[str, CallOutcome]) -> None:
        """Count a call that all members answered alike; raises Mismatch where one differs from the first."""
        (name, mine), *others = answers.items()
        for other_name, other in others:
            made = Comparison(method.name, Decision(mine.transport, other.transport, PROOF), mine, other, request)
            evidence = compare(made, self._rules, kind=PROOF)
            if evidence.values:
                text = short(repr(request))
                self._refuse(located(evidence, self._counts.events, "a call", text, (name, other_name)))
        self._counts.calls += 1
        self._counts.values += 1  # a message counts as one
        for key in self._rules.left_out(method.response):
            self._counts.not_compared.setdefault(key, self._rules.rows[key].skip)
        for what, why in UNSEEN.items():
            self._counts.not_compared.setdefault(what, why)

    def _refuse(self, found: LocatedDifference | None) -> None:
        """Count a difference and raise it, now and whatever is done from now on."""
        if found is not None:
            self._counts.differences.append(found.sentence())
            self.mismatch = Mismatch(found, self._counts)
            raise self.mismatch

    def _check(self) -> None:
        if self.mismatch is not None:
            raise self.mismatch


def _common(all_of_them: list[Capabilities]) -> Capabilities:
    """Return what every member can do, and nothing that the tee itself does not pass on."""
    return Capabilities(**{flag: all(getattr(one, flag) for one in all_of_them) for flag in _FLAGS})


def _outcome(answers: Mapping[str, CallOutcome]) -> Any:
    """Return what the first member gave, or raise what it raised."""
    first = next(iter(answers.values()))
    if first.raised is not None:
        raise first.raised
    return first.items[0]
