"""What one request comes to over one transport: a response, the items of a stream and its end, or an error.

An error is its class, text and hint, which carry status and details over every wire. Every wait is bounded: calls and
streams have a deadline. `ASPECTS` says what of two answers is compared.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import plural
from lucky_transport.messages import ImageFrame, StepRequest
from lucky_transport.messages.methods import METHODS, Flow, Method, method
from lucky_transport.transport import Stream, Transport
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import error_text

__all__ = [
    "ASPECTS",
    "FEW_ITEMS",
    "MOST_ITEMS",
    "OF_STATES",
    "PATIENCE_S",
    "READS",
    "WRONG_CALLS",
    "Ask",
    "CallResult",
    "answered",
    "ask",
    "differing",
    "looked_at",
    "watched",
]

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
_ENDED = "the stream ended"

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
Ask = Callable[[Transport, Method, Any], "CallResult"]


@dataclass(slots=True)
class CallResult:
    """`items`: the response, or the first items of a stream. `error`: how it ended, "" for a response; `raised`: what
    was raised to say so. took_us: from the request to that end. left: the stream was left before its end; runs_on: and
    the engine's handler has not ended. dropped: items that the stream skipped.
    """

    items: list[Any] = field(default_factory=list[Any])
    error: str = ""
    raised: Exception | None = None
    took_us: float = 0.0
    left: bool = False
    runs_on: bool = False
    dropped: int = 0

    def fail(self, error: Exception) -> None:
        """End with what was raised; StopIteration is the end of a stream."""
        self.raised = error
        is_end = isinstance(error, StopIteration)
        self.error = _ENDED if is_end else error_text(error)

    @property
    def lost(self) -> bool:
        """True when the connection is gone."""
        return isinstance(self.raised, ConnectionError)

    @property
    def verdict(self) -> str:
        """accepted; refused, in the response; or raised."""
        if not self.items:
            return "raised"
        return "accepted" if _accepts(self.items[0]) else "refused"


def _accepts(response: Any) -> bool:
    inner = getattr(response, "result", None) or response
    return next((bool(getattr(inner, name)) for name in _VERDICTS if hasattr(inner, name)), True)


def answered(take: Callable[[CallResult], object]) -> CallResult:
    """Return what `take` adds to an answer, and how it ended, whatever it raises: that is what is compared."""
    answer, began_ns = CallResult(), time.perf_counter_ns()
    try:
        take(answer)
    except Exception as error:
        answer.fail(error)
    answer.took_us = (time.perf_counter_ns() - began_ns) / 1000
    return answer


def ask(
    transport: Transport, method: Method, request: Any, *, most: int = FEW_ITEMS, copy_images: bool = True
) -> CallResult:
    """Make the call, or read the stream to its end or `most` items, and leave it then.

    copy_images: see `Transport.stream`.
    """
    own = copy.deepcopy(request)  # an engine in this process may keep what it is given
    if method.stream is None:
        return answered(lambda answer: answer.items.append(transport.call(method, own, Deadline(PATIENCE_S))))
    return answered(lambda answer: _take(answer, transport, method, own, most, copy_images))


def _take(answer: CallResult, transport: Transport, method: Method, request: Any, most: int, copy_images: bool) -> None:
    fps = request.target_fps if hasattr(request, "target_fps") else 0
    wanted, look = 1 if isinstance(fps, int) and 0 < fps < _SLOWEST_HZ else most, Deadline(_LOOK_S)
    with transport.stream(method, request, Deadline(PATIENCE_S), copy=copy_images) as stream:
        try:
            while len(answer.items) < wanted and not look.expired:
                item = next(stream)
                answer.items.append(replace(item, data=bytes(item.data)) if isinstance(item, ImageFrame) else item)
        finally:
            answer.dropped = stream.dropped
        answer.left = True
        stream.cancel()
        next(stream)
        answer.error = "another item after the cancel"


def ask_until_late(transport: Transport, method: Method, request: Any) -> CallResult:
    """Make the call with a short deadline. What came of it is without an error where it ended by itself before."""
    late = Deadline(_SHORT_S + _GRACE_S)

    def take(_: CallResult) -> None:
        if method.stream is None:
            transport.call(method, request, Deadline(_SHORT_S))
        else:
            with transport.stream(method, request, Deadline(_SHORT_S)) as stream:
                any(late.expired for _ in stream)

    answer = answered(take)
    if late.expired:
        answer.error = f"went on for {_GRACE_S:g} s after its deadline"
    return answer


def watched(step: StepRequest) -> Ask:
    """Return what takes the first states of a stream, with `step` made between every two of them.

    How often a state is shown hangs on the clock, so each one counts once; after a step the next state is waited for,
    so every transport shows the same ones.
    """
    return lambda transport, row, request: answered(lambda answer: _take_states(answer, transport, row, request, step))


def _take_states(answer: CallResult, transport: Transport, row: Method, request: Any, step: StepRequest) -> None:
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


def _wrongly(use: Callable[[Transport, Method, Any], Any]) -> Ask:
    return lambda transport, method, request: answered(
        lambda answer: answer.items.append(use(transport, method, request))
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


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two answers to one request."""

    method: Method
    left: CallResult
    right: CallResult
    rules: ComparisonRules

    @property
    def is_open(self) -> bool:
        """True when a side that was left has no more items than the other: how many there are is not known then."""
        mine, other = self.left, self.right
        most = min(len(mine.items), len(other.items))
        return any(one.left and len(one.items) == most for one in (mine, other))

    def items(self, *, ended_early: bool = True) -> Difference | None:
        items, dropped = (self.left.items, self.right.items), (self.left.dropped, self.right.dropped)
        return ItemPairs(self.method, *items, self.rules, ended_early=ended_early, dropped=dropped).differing()

    def ending(self) -> Difference | None:
        left, right = self.left, self.right
        if left.error == right.error or (left.left != right.left and _ENDED in (left.error, right.error)):
            return None
        kinds = {one.error.partition(": ")[0] for one in (left, right)}
        codes = {getattr(one.raised, "code", None) for one in (left, right)}
        aspect = "code" if len(kinds) > 1 or len(codes) > 1 else "details"
        return Difference(aspect, "outcome", _outcome(left), _outcome(right))

    def hint(self) -> Difference | None:
        """Return where hints differ. An error that came over a wire has its hint in its text only."""
        mine, other = (getattr(one.raised, "hint", "") for one in (self.left, self.right))
        is_foreign = any(not one.error.endswith(hint) for one, hint in ((self.left, mine), (self.right, other)))
        return Difference("hint", "hint", mine, other) if mine != other and (is_foreign or (mine and other)) else None

    def count(self) -> Difference | None:
        same = len(self.left.items) == len(self.right.items)
        return None if same or self.is_open else self.items(ended_early=False)

    def numbers(self) -> Difference | None:
        """Return where the images of a stream are not numbered upwards: their numbers are not compared."""
        rows = [[item.frame_number for item in one.items if isinstance(item, ImageFrame)] for one in self.sides]
        if all(row == sorted(set(row)) for row in rows):
            return None
        return Difference("order", "frame_number of the items", rows[0], rows[1])

    def handlers(self) -> Difference | None:
        if self.left.runs_on == self.right.runs_on:
            return None
        mine, other = ("runs on" if one.runs_on else "has ended" for one in self.sides)
        return Difference("cancel", "the engine's handler after the stream was left", mine, other)

    @property
    def sides(self) -> tuple[CallResult, CallResult]:
        return self.left, self.right

    @property
    def has_images(self) -> bool:
        return self.method.stream is not None and self.method.response is ImageFrame


#: What of two answers is compared, in this order: the first difference counts, and reports name it from here. Each with
#: whether two answers have it, and where they differ in it.
ASPECTS: Mapping[str, tuple[Callable[[_Pair], object], Callable[[_Pair], Difference | None]]] = {
    "every field of responses and items": (lambda pair: any(one.items for one in pair.sides), _Pair.items),
    "class, status and text of errors": (lambda pair: any(one.error for one in pair.sides), _Pair.ending),
    "hints of errors": (lambda pair: any(one.error for one in pair.sides), _Pair.hint),
    "order and number of items": (lambda pair: pair.method.stream and not pair.is_open, _Pair.count),
    "that images are numbered upwards": (lambda pair: pair.has_images, _Pair.numbers),
    "that the engine's handler ends when its stream is left": (
        lambda pair: any(one.left for one in pair.sides),
        _Pair.handlers,
    ),
}


def differing(
    method: Method, left: CallResult, right: CallResult, rules: ComparisonRules | None = None
) -> Difference | None:
    """Return where two answers to one request first differ, by the project's rules or those given; None if nowhere."""
    pair = _Pair(method, left, right, rules or ComparisonRules())
    return next((found for _, compared in ASPECTS.values() if (found := compared(pair)) is not None), None)


def looked_at(method: Method, left: CallResult, right: CallResult) -> list[str]:
    """Return those of `ASPECTS` that these two answers have."""
    pair = _Pair(method, left, right, _RULES)
    return [name for name, (applies, _) in ASPECTS.items() if applies(pair)]


def _outcome(answer: CallResult) -> str:
    if answer.items and not answer.error:
        return "a response"
    return ", then ".join([plural(len(answer.items), "item")] * bool(answer.items) + [answer.error or "no response"])
