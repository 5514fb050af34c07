"""What one test did over one transport, kept for the same test over the next one.

Recording changes nothing: the test gets the transport's own answers and errors. A recording has a limit of memory; what
is beyond it is not compared, and said.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.errors import plural
from lucky_transport.messages.methods import Method
from lucky_transport.transport import Frame, Stream, Transport
from lucky_transport_migration.commands_parity.answers import CallResult
from lucky_transport_migration.compare.difference import AtMove, Difference, Finding
from lucky_transport_migration.compare.frames import frame_table
from lucky_transport_migration.compare.rules import ComparisonRules
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

__all__ = ["RecordedTransport", "Transcript", "first_between"]

_MOST_BYTES = 256 << 20


@dataclass(slots=True)
class Transcript:
    """The events of one run over the transport `name`, in their order. `dropped`: those beyond the limit."""

    name: str
    events: list[Event] = field(default_factory=list[Event])
    nbytes: int = 0
    dropped: int = 0

    def add(self, event: Event) -> None:
        """Keep an event while there is room."""
        if self.nbytes > _MOST_BYTES:
            self.dropped += 1
            return
        self.nbytes += event.nbytes
        self.events.append(event)


class RecordedTransport(Transport):
    """`inner`, with everything that goes through it kept in `recording`; closing it closes `inner`."""

    def __init__(self, inner: Transport, recording: Transcript) -> None:
        self.name, self.spec, self.capabilities = inner.name, inner.spec, inner.capabilities
        self.actions = inner.actions
        self._inner = inner
        self._recording = recording
        self._sent: tuple[NDArray[Any], NDArray[np.uint8] | None] = (self.actions, None)
        self._first_seq: int | None = None
        self._exchanges = 0

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._sent = (np.array(actions), None if control is None else control.copy())
        made = attempt(self._inner.send, actions, control)
        if made.error is not None:
            self._keep(made)
        made.outcome()
        self.out_of_bounds = self._inner.out_of_bounds

    def recv(self, deadline: Deadline | None = None) -> Frame:
        made = attempt(self._inner.recv, deadline)
        self._keep(made)
        return made.outcome()

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        asked = copy.deepcopy(request)
        made = attempt(self._inner.call, method, request, deadline)
        answer = CallResult([made.value], made.text) if made.error is None else CallResult(error=made.text)
        self._recording.add(Asked(len(self._recording.events), method, asked, copy.deepcopy(answer)))
        return made.outcome()

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        return self._inner.stream(method, request, deadline, copy=copy)

    def implements(self, method: Method) -> bool | None:
        return self._inner.implements(method)

    def close(self) -> None:
        self._inner.close()

    def _keep(self, made: Attempt) -> None:
        exchange = RecordedExchange(self._exchanges, *self._sent, error=made.text)
        self._exchanges += 1
        if made.value is not None:
            if self._first_seq is None:
                self._first_seq = made.value.seq
            exchange.table = frame_table(made.value, self.spec, self._first_seq or 0)
        self._recording.add(exchange)


def first_between(
    left: Transcript, right: Transcript, rules: ComparisonRules, counts: ComparisonCounts
) -> Finding | None:
    """Return where two runs of one test first differ, None if nowhere; what was equal is counted in `counts`.

    A difference in what the test did itself is one too: with the same answers it should have done the same.
    """
    for mine, other in zip(left.events, right.events, strict=False):
        if not mine.is_repeated_by(other):
            values = {left.name: mine.name, right.name: other.name}
            return _own(counts.events, "what the test did itself; give its random numbers a seed", values)
        found = difference((left.name, mine), (right.name, other), rules)
        if found is not None:
            return found
        counts.add(mine)
        for what, why in left_out(mine, rules):
            counts.leave_out(what, why)
    if left.dropped or right.dropped:
        counts.leave_out("the end of long tests", f"a recording keeps {_MOST_BYTES >> 20} MiB")
    elif len(left.events) != len(right.events):
        values = {
            side.name: plural(len(side.events), "exchange or call", "exchanges and calls") for side in (left, right)
        }
        return _own(counts.events, "how much the test did", values)
    return None


def _own(number: int, what: str, values: dict[str, Any]) -> Finding:
    (left, mine), (right, other) = values.items()
    return Finding(Difference("item", what, mine, other), (left, right), AtMove("side by side", number, "move"))
