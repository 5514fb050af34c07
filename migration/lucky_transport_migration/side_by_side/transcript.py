"""A recorded transport's sink in memory: what one test did, for the same test over the next transport.

It has a limit of memory; what is beyond it is not compared, and the report says so.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from lucky_transport.errors import PeerTimeout, plural
from lucky_transport.messages.methods import Method
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.difference import AtMove, Difference, LocatedDifference
from lucky_transport_migration.compare.frames import FrameTables, spec_difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.call_answers import CallResult
from lucky_transport_migration.recording.recorded_transport import RecordedTransport, Sent
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.event import (
    Asked,
    Attempt,
    Event,
    RecordedExchange,
    difference,
    left_out,
)

__all__ = ["Transcript", "first_between"]

_MOST_BYTES = 256 << 20


class Transcript:
    """The events of one run over the transport `name`, in their order; a `Sink`. Streams are not compared.

    events: what happened. spec: of what it was recorded over. dropped: how many events are beyond the limit of memory.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self.dropped = 0
        self._nbytes = 0
        self._exchanges = 1  # the number of the next one
        self._tables: FrameTables
        self._inner: Transport
        self.spec: BatchSpec

    def over(self, inner: Transport) -> RecordedTransport:
        """Return `inner`, recorded here."""
        self.spec, self._tables, self._inner = inner.spec, FrameTables(inner.spec), inner
        return RecordedTransport(inner, self)

    def add(self, event: Event) -> None:
        """Keep an event while there is room."""
        if self._nbytes > _MOST_BYTES:
            self.dropped += 1
            return
        self._nbytes += event.nbytes
        self.events.append(event)

    def refused(self, sent: Sent, error: Exception) -> None:
        """Keep an exchange whose `send` raised."""
        self._keep(sent, None, error)

    def exchanged(self, sent: Sent | None, frame: Frame | None, error: Exception | None) -> None:
        """Keep what `recv` returned or raised, a timeout too."""
        self._keep(sent, frame, error)
        self._exchanges += sent is not None and not isinstance(error, PeerTimeout)

    def _keep(self, sent: Sent | None, frame: Frame | None, error: Exception | None) -> None:
        actions, control = (np.empty(0), None) if sent is None else (sent.actions, sent.control)
        exchange = RecordedExchange(self._exchanges, actions, control, error=Attempt(error=error).text)
        if frame is not None:
            exchange.table = self._tables.table(frame, self._inner.out_of_bounds)
        self.add(exchange)

    def begin(self, method: Method, request: Any) -> _Call:
        """Return what keeps the call, with a copy of its request."""
        return _Call(self, method, copy.deepcopy(request))

    def flush(self) -> None:
        """Everything is kept already."""


class _Call:
    """A call that is being made."""

    def __init__(self, transcript: Transcript, method: Method, request: Any) -> None:
        self._transcript = transcript
        self._method = method
        self._request = request
        self._answer = CallResult()

    def add(self, item: Any) -> None:
        """Keep a copy of the response."""
        if self._method.stream is None:
            self._answer.items.append(copy.deepcopy(item))

    def end(self, error: Exception | None = None, *, left: bool = False, dropped: int = 0) -> None:
        """Keep the call; a stream is not compared."""
        if self._method.stream is None:
            answer = CallResult(self._answer.items, Attempt(error=error).text)
            self._transcript.add(Asked(len(self._transcript.events), self._method, self._request, answer))


def first_between(
    left: Transcript, right: Transcript, rules: ComparisonRules, counts: ComparisonCounts
) -> LocatedDifference | None:
    """Return where two runs of one test first differ, None if nowhere; what was equal is counted in `counts`.

    A difference in what the test did itself is one too: with the same answers it should have done the same.
    """
    found = spec_difference({left.name: left.spec, right.name: right.spec}, "side by side", rules)
    if found is not None:
        return found
    for mine, other in zip(left.events, right.events, strict=False):
        if not mine.is_repeated_by(other):
            values = {left.name: mine.name, right.name: other.name}
            return _own(counts.exchanges, "what the test did itself; give its random numbers a seed", values)
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
        return _own(counts.exchanges, "how much the test did", values)
    return None


def _own(number: int, what: str, values: dict[str, Any]) -> LocatedDifference:
    (left, mine), (right, other) = values.items()
    return LocatedDifference(
        Difference("item", what, mine, other), (left, right), AtMove("side by side", number, "what follows")
    )
