"""What a case records, plain values that can be compared and printed, and the ways to make a call.

Every observation of an error or a call goes through here, so that no case forgets a part of it. Every style that an
arity offers is here, so that a case about an ending is a case about all of them.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import grpc

PATIENCE_S = 60.0

#: Deadlines that are to expire in a handler; the next one where a busy machine came to it late.
EXPIRIES_S = (0.3, 3.0, 30.0)

Record = dict[str, Any]

#: The classes that user code catches or asks for; an error's record names those it is an instance of.
CLASSES: tuple[type, ...] = (
    grpc.RpcError,
    grpc.Call,
    grpc.Future,
    grpc.RpcContext,
    grpc.FutureTimeoutError,
    grpc.FutureCancelledError,
    grpc.aio.AioRpcError,
    grpc.aio.InternalError,
    grpc.aio.UsageError,
    asyncio.CancelledError,
    asyncio.InvalidStateError,
    asyncio.TimeoutError,
    StopIteration,
    StopAsyncIteration,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    NotImplementedError,
)


def classes(thing: object) -> list[str]:
    """Return the names of the classes that users know and `thing` is an instance of."""
    return [one.__name__ for one in CLASSES if isinstance(thing, one)]


def entries(metadata: Iterable[Any] | None) -> list[tuple[str, str | bytes]] | None:
    """Return metadata in its order, without what only names the implementation."""
    if metadata is None:
        return None
    return [(key, value) for key, value in metadata if key != "user-agent"]


#: How gRPC's core quotes a reason when HTTP/2 had dropped the stream already; whether it had is a race.
_QUOTED = re.compile(r"Stream removed \((.*)\)", re.DOTALL)


#: grpc.aio's text lists the objects of a batch of operations, with their addresses in memory.
_OPERATIONS = re.compile(r": \(<grpc\._cython.*")


def words(details: str | None) -> str | None:
    """Return the details of a status without what depends on a race."""
    quoted = _QUOTED.fullmatch(details or "")
    return quoted[1] if quoted else details


def status(call: Any) -> Record:
    """Return what an ended call (or the error of one) says about its end."""
    return {
        "code": call.code().name,
        "details": words(call.details()),
        "initial": entries(call.initial_metadata()),
        "trailing": entries(call.trailing_metadata()),
    }


def state(call: Any) -> Record:
    """Return what a call says about where it stands."""
    return {"done": call.done(), "running": call.running(), "cancelled": call.cancelled()}


def error(raised: BaseException) -> Record:
    """Return what the handler of an exception can learn from it."""
    seen: Record = {"classes": classes(raised)}
    if isinstance(raised, grpc.RpcError) and hasattr(raised, "code"):
        seen |= status(raised)
    elif not isinstance(raised, TypeError):  # whose text is Python's own, of whatever line met the mistake
        seen["text"] = _OPERATIONS.sub("", str(raised))
    if isinstance(raised, grpc.Future):
        seen |= state(raised)
    return seen


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Record:
    """Call `function`; return the record of its value or of what it raised."""
    try:
        value = function(*arguments, **options)
    except Exception as raised:
        return {"raised": error(raised)}
    return {"value": plain(value)}


def plain(value: Any) -> Any:
    """Return the value of an attempt as a record can hold it: calls and metadata by what they say."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], grpc.Call):
        return {"response": value[0], **status(value[1]), **state(value[1])}
    if isinstance(value, grpc.StatusCode):
        return value.name
    if isinstance(value, BaseException):
        return error(value)
    return value


def taken(items: Iterator[Any], at_most: int = 1_000_000) -> Record:
    """Return the items that come, and the error that ends them."""
    seen: list[Any] = []
    try:
        while len(seen) < at_most:
            seen.append(next(items))
    except StopIteration:
        return {"items": seen, "ended": "exhausted"}
    except Exception as raised:
        return {"items": seen, "ended": error(raised)}
    return {"items": seen, "ended": "not yet"}


def happened(event: threading.Event) -> bool:
    """Return whether the event comes within our patience."""
    return event.wait(PATIENCE_S)


class Diary:
    """What happened in which order, written by any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: list[Any] = []

    def note(self, line: Any) -> None:
        """Add a line."""
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def after(self, lines: int) -> list[Any]:
        """Return the diary once it has that many lines, or as it is when patience ends."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) >= lines, PATIENCE_S)
            return list(self._lines)


def without(value: Any, places: Iterable[str]) -> Any:
    """Return a record in which every one of these addresses is called TARGET, wherever a text names it."""
    if isinstance(value, dict):
        return {key: without(inner, places) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without(inner, places) for inner in value]
    if isinstance(value, str):
        for place in places:
            value = value.replace(place, "TARGET")
    return value


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
