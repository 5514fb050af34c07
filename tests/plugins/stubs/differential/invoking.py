"""The ways to make a call, each with the whole record of how it ended.

Every style that an arity offers is here, so that a case about an ending is a case about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .records import PATIENCE_S, Diary, Record, attempt, state, status, taken


class Way(NamedTuple):
    """An arity, and a style of call that it offers."""

    arity: str
    style: str

    def __str__(self) -> str:
        return f"{self.arity}, {self.style}"


#: Every way to make a call.
WAYS = (
    Way("unary_unary", "blocking"),
    Way("unary_unary", "with_call"),
    Way("unary_unary", "future"),
    Way("unary_stream", "iterator"),
    Way("stream_unary", "blocking"),
    Way("stream_unary", "with_call"),
    Way("stream_unary", "future"),
    Way("stream_stream", "iterator"),
)

#: Those whose caller is not blocked, and can cancel.
FREE_WAYS = tuple(way for way in WAYS if way.style in ("future", "iterator"))

REQUESTS = (b"one", b"two", b"three")


def argument(arity: str) -> Any:
    """Return what to send: one request, or an iterator of three."""
    return iter(REQUESTS) if arity.startswith("stream") else REQUESTS[0]


def received(arity: str, request: Any) -> bytes:
    """Return all that a handler was sent, as one value."""
    return b"+".join(request) if arity.startswith("stream") else request


def answering(arity: str, answer: Callable[[bytes, Any], bytes | None]) -> Callable[[Any, Any], Any]:
    """Return a handler that reads its requests and responds as `answer(requests, context)`; a stream says more before.

    An answer of None ends a stream without a further item.
    """

    def unary(request: Any, context: Any) -> bytes | None:
        return answer(received(arity, request), context)

    def stream(request: Any, context: Any) -> Iterator[bytes]:
        yield b"first"
        last = answer(received(arity, request), context)
        if last is not None:
            yield last

    return stream if arity.endswith("stream") else unary


def invoke(style: str, multicallable: Any, *arguments: Any, **options: Any) -> Record:
    """Make a call and return all there is to see of it, from its response to its state at the end."""
    if style == "blocking":
        return attempt(multicallable, *arguments, **options)
    if style == "with_call":
        return attempt(multicallable.with_call, *arguments, **options)
    if style == "future":
        return ended_future(multicallable.future(*arguments, **options))
    call = multicallable(*arguments, **options)
    return {"taken": taken(call), **ended(call)}


def ended_future(future: Any) -> Record:
    """Return what a future says once it has ended, and that it tells each callback once.

    (In which order is a matter for a call that cannot end meanwhile: see the cases of `futures`.)
    """
    diary = Diary()
    future.add_done_callback(lambda told: diary.note(("early", told is future)))
    seen = {"result": attempt(future.result, PATIENCE_S), **ended(future)}
    future.add_done_callback(lambda told: diary.note(("late", told is future)))
    return {**seen, "callbacks": sorted(diary.after(2))}


def ended(call: Any) -> Record:
    """Return what an ended call says, whatever it is asked."""
    return {
        **status(call),
        **state(call),
        "active": call.is_active(),
        "exception": attempt(call.exception, PATIENCE_S),
        "traceback": attempt(lambda: type(call.traceback(PATIENCE_S)).__name__),
        "cancel": call.cancel(),
        "time remains": call.time_remaining() and True,
    }
