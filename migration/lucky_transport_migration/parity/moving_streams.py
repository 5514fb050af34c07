"""A stream of states, watched while the world moves: which states it shows, and in which order.

How often a state is shown hangs on the clock, so each one counts once; after a step the next state is waited for, so
every transport shows the same ones.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.messages import ImageFrame, StepRequest
from lucky_transport.messages.methods import METHODS, Flow, Method, method
from lucky_transport.transport import Stream, Transport
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.parity.call_answers import PATIENCE_S, Ask, CallResult, answered

__all__ = ["OF_STATES", "watched"]

_STEP = method("AgentService/Step")
_RULES = ComparisonRules()

#: So many states are compared, with a step between every two of them.
_STATES = 10

#: A world that does not move at all is given up after so many items.
_MOST_LOOKS = 100

#: Streams of numbers that follow the world. Images are left out: drawing them takes longer than a step.
OF_STATES = tuple(row for row in METHODS if row.stream is Flow.LATEST and row.response is not ImageFrame)


def watched(step: StepRequest) -> Ask:
    """Return what takes the first states of a stream, with `step` made between every two of them."""
    return lambda transport, row, request: answered(lambda answer: _take(answer, transport, row, request, step))


def _take(answer: CallResult, transport: Transport, row: Method, request: Any, step: StepRequest) -> None:
    with transport.stream(row, request, Deadline(PATIENCE_S)) as stream:
        answer.items.append(next(stream))
        for _ in range(_STATES - 1):
            transport.call(_STEP, step, Deadline(PATIENCE_S))
            answer.items.append(_next_state(stream, row, answer.items[-1]))
            answer.dropped = stream.dropped
    answer.left = True


def _next_state(stream: Stream, row: Method, last: Any) -> Any:
    item = last
    for _ in range(_MOST_LOOKS):
        item = next(stream)
        if first_unequal(row.response, last, item, _RULES, streamed=True) is not None:
            break
    return item
