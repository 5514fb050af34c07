"""What one request comes to over one transport: a response, the items of a stream and its end, or an error.

An error is its class and its text, which carry status and details over every wire. Every wait is bounded: calls and
streams have a deadline.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import Method, method
from lucky_transport.transport import Transport
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import error_text

__all__ = ["MOST_ITEMS", "PATIENCE_S", "WRONG_CALLS", "Ask", "CallResult", "ask", "ask_for_views", "differing"]

_VIEWPORT = method("ViewportService/StreamViewport")
_VIEWPORTS = method("ViewportService/GetViewportInfo")
_SLEEP_S = 0.002

#: Longer than anything but a hang takes, also beside other work.
PATIENCE_S = 60.0
#: So many items of a stream are compared.
MOST_ITEMS = 3
#: A stream that is asked for fewer items a second is not waited for beyond the first.
_SLOWEST_HZ = 20

#: The fields by which a response says whether it did what it was asked for.
_VERDICTS = ("success", "ok", "found", "accepted", "is_valid")

#: Makes one request over one transport and returns what came of it.
Ask = Callable[[Transport, Method, Any], "CallResult"]


@dataclass(slots=True)
class CallResult:
    """`items`: the response, or the first items of a stream. `error`: how it ended, "" for a response; `raised`: what
    was raised to say so. took_us: from the request to that end.
    """

    items: list[Any] = field(default_factory=list[Any])
    error: str = ""
    raised: Exception | None = None
    took_us: float = 0.0

    def fail(self, error: Exception) -> None:
        """End with what was raised; StopIteration is the end of a stream."""
        self.raised = error
        is_end = isinstance(error, StopIteration)
        self.error = "the stream ended" if is_end else error_text(error)

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


def ask(transport: Transport, method: Method, request: Any, *, copy_images: bool = True) -> CallResult:
    """Make the call, or take the first items of the stream, cancel it and wait until the engine has noticed.

    copy_images: see `Transport.stream`.
    """
    answer = CallResult()
    own = copy.deepcopy(request)  # an engine in this process may keep what it is given
    began_ns = time.perf_counter_ns()
    try:
        if method.stream is None:
            answer.items.append(transport.call(method, own, Deadline(PATIENCE_S)))
        else:
            _take(answer, transport, method, own, copy_images)
    except Exception as error:  # whatever it is, it is what is compared
        answer.fail(error)
    answer.took_us = (time.perf_counter_ns() - began_ns) / 1000
    return answer


def ask_for_views(transport: Transport, method: Method, request: Any) -> CallResult:
    """As `ask`; images are looked at where the engine drew them, if the transport can do that."""
    return ask(transport, method, request, copy_images=False)


def _take(answer: CallResult, transport: Transport, method: Method, request: Any, copy_images: bool) -> None:
    fps = request.target_fps if hasattr(request, "target_fps") else 0
    wanted = 1 if isinstance(fps, int) and 0 < fps < _SLOWEST_HZ else MOST_ITEMS
    with transport.stream(method, request, Deadline(PATIENCE_S), copy=copy_images) as stream:
        for _ in range(wanted):
            item = next(stream)
            answer.items.append(replace(item, data=bytes(item.data)) if isinstance(item, ImageFrame) else item)
        stream.cancel()
        if method is _VIEWPORT:
            _await_the_end(transport)
        next(stream)


def _await_the_end(transport: Transport) -> None:
    """Wait until the engine says that no viewport stream runs any more: it learns of a cancel in its own time."""
    deadline = Deadline(PATIENCE_S)
    while not deadline.expired:
        config = transport.call(_VIEWPORTS, _VIEWPORTS.request(), deadline).current_config
        if config is None or not config.streaming:
            return
        time.sleep(_SLEEP_S)


def _wrongly(use: Callable[[Transport, Method, Any], Any]) -> Ask:
    def made(transport: Transport, method: Method, request: Any) -> CallResult:
        answer = CallResult()
        try:
            answer.items.append(use(transport, method, request))
        except Exception as error:  # as above
            answer.fail(error)
        return answer

    return made


def _other_shape(transport: Transport, method: Method, request: Any) -> Any:
    if method.stream is None:
        return next(transport.stream(method, request, Deadline(PATIENCE_S)))
    return transport.call(method, request, Deadline(PATIENCE_S))


def _too_late(transport: Transport, method: Method, request: Any) -> Any:
    if method.stream is None:
        return transport.call(method, request, Deadline(0.0))
    return next(transport.stream(method, request, Deadline(0.0)))


def _foreign(transport: Transport, method: Method, request: Any) -> Any:
    if method.stream is None:
        return transport.call(method, method.response(), Deadline(PATIENCE_S))
    return next(transport.stream(method, method.response(), Deadline(PATIENCE_S)))


#: Wrong calls of any method, each of which raises the same on every transport.
WRONG_CALLS: dict[str, Ask] = {
    "taken for the other shape": _wrongly(_other_shape),
    "with a message of another class": _wrongly(_foreign),
    "after its deadline": _wrongly(_too_late),
}


def differing(
    method: Method, left: CallResult, right: CallResult, rules: ComparisonRules | None = None
) -> Difference | None:
    """Return where two answers to one request first differ, by the project's rules or those given; None if nowhere."""
    items = ItemPairs(method, left.items, right.items, rules or ComparisonRules(), ended_early=True)  # how many: below
    return items.differing() or _ending(left, right) or _numbering(left, right)


def _ending(left: CallResult, right: CallResult) -> Difference | None:
    """Return how two answers end differently: with another error, another text of it, or after more or fewer items."""
    if left.error == right.error and len(left.items) == len(right.items):
        return None
    if type(left.raised) is not type(right.raised):
        aspect = "code"
    else:
        aspect = "details" if left.error != right.error else "count"
    return Difference(aspect, "outcome", _outcome(left), _outcome(right))


def _numbering(left: CallResult, right: CallResult) -> Difference | None:
    """Return where the images of a stream are not numbered upwards: their numbers are not compared."""
    numbers = [[item.frame_number for item in answer.items if isinstance(item, ImageFrame)] for answer in (left, right)]
    if all(row == sorted(set(row)) for row in numbers):
        return None
    return Difference("order", "frame_number of the items", numbers[0], numbers[1])


def _outcome(answer: CallResult) -> str:
    what = f"{len(answer.items)} items, then " if len(answer.items) > 1 else "a response" if answer.items else ""
    return what + answer.error
