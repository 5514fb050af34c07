"""What one request comes to over one transport: a response, the items of a stream and its end, or an error.

The details of an error are its class, text and hint. Every wait is bounded: calls and streams have a
deadline.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, Status
from lucky_transport.messages import ImageFrame, StepRequest
from lucky_transport.messages.methods import METHODS, Flow, Method, method
from lucky_transport.transport import Stream, Transport
from lucky_transport_migration.compare.difference import error_text
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome, ending_of

#: Longer than anything but a hang takes, also beside other work.
PATIENCE_S = 60.0
#: So many items of a stream are compared when its method is called first, and so many later.
MOST_ITEMS, FEW_ITEMS = 200, 3
#: A stream is not read for longer than this, however slow it is.
_LOOK_S = 20.0
#: A stream that is asked for fewer items a second is not waited for beyond the first.
_SLOWEST_HZ = 20
#: A deadline that expires in a handler that waits, and how late its end may come on a loaded machine.
_SHORT_S, _GRACE_S = 0.2, 5.0

_STEP = method("AgentService/Step")
_RULES = ComparisonRules()

#: So many states are compared, with a step between every two of them.
_STATES = 10

#: A world that does not move at all is given up after so many items.
_MOST_LOOKS = 100

#: Streams of numbers that follow the world. Images are left out: drawing them takes longer than a step.
OF_STATES = tuple(row for row in METHODS if row.stream is Flow.LATEST and row.response is not ImageFrame)

#: The fields by which a response says whether it did what it was asked for.
_VERDICTS = ("success", "ok", "found", "accepted", "is_valid")

#: Makes one request over one transport and returns what came of it.
Ask = Callable[[Transport, Method, Any], CallOutcome]


def accepts(answer: CallOutcome) -> bool:
    """True where a call was accepted; a response may say itself that it was not."""
    if answer.code != "OK" or not answer.items:
        return answer.code == "OK"
    inner = getattr(answer.items[0], "result", None) or answer.items[0]
    return next((bool(getattr(inner, name)) for name in _VERDICTS if hasattr(inner, name)), True)


def answered(transport: str, take: Callable[[CallOutcome, list[Any]], object]) -> CallOutcome:
    """Return what `take` adds to an answer and to its items, and how it ended.

    Whatever is raised is an answer; only where the connection was lost, the caller's own side ended the call.
    """
    items: list[Any] = []
    answer, began_ns = CallOutcome(transport, items), time.perf_counter_ns()
    try:
        take(answer, items)
    except StopIteration:
        pass
    except Exception as error:  # whatever it is, it is what is compared
        answer.raised, answer.code, answer.details = error, ending_of(error).code, _details(error)
        answer.is_local = isinstance(error, ConnectionError)
    answer.took_us = 0.0 if answer.is_left else (time.perf_counter_ns() - began_ns) / 1000
    return answer


def _details(error: Exception) -> str:
    """Return class, text and hint. An error that came over a wire has its hint in its text only."""
    text, hint = error_text(error), getattr(error, "hint", "")
    return text if text.endswith(hint) else f"{text}, hint {hint!r}"


def ask(
    transport: Transport, method: Method, request: Any, *, most: int = FEW_ITEMS, copy_images: bool = True
) -> CallOutcome:
    """Make the call, or read the stream to its end or `most` items, and leave it then.

    copy_images: see `Transport.stream`.
    """
    own = copy.deepcopy(request)  # an engine in this process may keep what it is given

    fps = getattr(own, "target_fps", 0)
    wanted = 1 if isinstance(fps, int) and 0 < fps < _SLOWEST_HZ else most

    def take(answer: CallOutcome, items: list[Any]) -> None:
        if method.stream is None:
            items.append(transport.call(method, own, Deadline(PATIENCE_S)))
            return
        look, began_ns = Deadline(_LOOK_S), time.perf_counter_ns()
        with transport.stream(method, own, Deadline(PATIENCE_S), copy=copy_images) as stream:
            try:
                while len(items) < wanted and not look.expired:
                    item = next(stream)
                    answer.first_us = answer.first_us or (time.perf_counter_ns() - began_ns) / 1e3
                    items.append(replace(item, data=bytes(item.data)) if isinstance(item, ImageFrame) else item)
            finally:
                answer.dropped = stream.dropped
            stream.cancel()
            try:
                next(stream)
            except (Cancelled, StopIteration):
                answer.is_left = True
            else:
                answer.code, answer.details = Status.UNKNOWN.name, "another item came after the cancel"

    return answered(transport.name, take)


def ask_until_late(transport: Transport, method: Method, request: Any) -> CallOutcome:
    """Make the call with a short deadline. What came of it is OK where it ended by itself before."""
    late = Deadline(_SHORT_S + _GRACE_S)

    def take(*_: object) -> None:
        if method.stream is None:
            transport.call(method, request, Deadline(_SHORT_S))
        else:
            with transport.stream(method, request, Deadline(_SHORT_S)) as stream:
                any(late.expired for _ in stream)

    answer = answered(transport.name, take)
    if late.expired:
        answer.code, answer.details = Status.UNKNOWN.name, f"it went on for {_GRACE_S:g} s after its deadline"
    return answer


def watched(step: StepRequest) -> Ask:
    """Return what takes the first states of a stream, with `step` made between every two of them.

    How often a state is shown hangs on the clock, so each one counts once; after a step the next state is waited for,
    so every transport shows the same ones.
    """

    def ask(transport: Transport, row: Method, request: Any) -> CallOutcome:
        def take(answer: CallOutcome, items: list[Any]) -> None:
            with transport.stream(row, request, Deadline(PATIENCE_S)) as stream:
                items.append(next(stream))
                for _ in range(_STATES - 1):
                    transport.call(_STEP, step, Deadline(PATIENCE_S))
                    items.append(_next_state(stream, row, items[-1]))
                    answer.dropped = stream.dropped
            answer.is_left = True

        return answered(transport.name, take)

    return ask


def _next_state(stream: Stream, row: Method, last: Any) -> Any:
    item = last
    for _ in range(_MOST_LOOKS):
        item = next(stream)
        if first_unequal(row.response, last, item, _RULES, streamed=True) is not None:
            break
    return item


def _wrongly(use: Callable[[Transport, Method, Any], Any]) -> Ask:
    return lambda transport, method, request: answered(
        transport.name, lambda _, items: items.append(use(transport, method, request))
    )


def _first(transport: Transport, method: Method, request: Any, *, streams: bool, within_s: float = PATIENCE_S) -> Any:
    """Return the response, or the first item; streams: as which of both the call is made."""
    make = transport.stream if streams else transport.call
    found = make(method, request, Deadline(within_s))
    return next(found) if streams else found


#: Wrong calls of any method, each of which raises the same on every transport.
WRONG_CALLS: dict[str, Ask] = {
    "taken for the other shape": _wrongly(lambda to, row, request: _first(to, row, request, streams=not row.stream)),
    "with a message of another class": _wrongly(
        lambda to, row, _: _first(to, row, row.response(), streams=bool(row.stream))
    ),
    "after its deadline": _wrongly(
        lambda to, row, request: _first(to, row, request, streams=bool(row.stream), within_s=0.0)
    ),
}

#: Further calls of methods that change nothing; where one ends without an error it says nothing.
READS: dict[str, Ask] = {"with a deadline that expires in the handler": ask_until_late}
