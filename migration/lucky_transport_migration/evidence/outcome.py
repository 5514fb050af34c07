"""What came of a call: the answer of each transport that was asked, and how it ended.

Both transports raise the same class with the same text for the same reason, so code and details can be compared
whichever of them raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.errors import (
    Cancelled,
    ClosedError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    Status,
    StatusError,
    TransportError,
    status_of,
)
from lucky_transport.routing import ChannelOptions, Decision, Ending
from lucky_transport_migration.compare.difference import error_text

#: What a call can go over, by the names that decisions have for it, wherever it is.
CONTROL, CANDIDATE = "grpc", "shm"

#: What a caller's own side raises: no connection stands, it gave up, its clock has passed the deadline.
_LOCAL = (NotReachable, PeerDied, ClosedError, Cancelled, PeerTimeout)
#: So much earlier than a deadline a clock may find it passed: who sets it and who measures it read it at two moments.
_SLACK_S = 0.005


@dataclass(slots=True)
class CallOutcome:
    """The answer of one transport to one call.

    items: the response, or all items of a stream, in their order: messages of the method's response class, or bytes as
    they came where the caller's own stubs decode them. code: a status as gRPC names it ("OK", "NOT_FOUND"). took_us:
    from the request to the last item; first_us: to the first one of a stream, 0 = none came. dropped: items that a
    stream skipped. more: how many items came beyond those; rest: their digest, see `compare/items.py`, "" = not
    known. is_local: the caller's own side ended it, see `Ending`. is_left: a stream was left before its end, though
    there may be more items. raised: what a typed call raised in its caller.
    """

    transport: str
    items: Sequence[Any] = ()
    code: str = "OK"
    details: str = ""
    headers: Metadata = ()
    trailing: Metadata = ()
    took_us: float = 0.0
    dropped: int = 0
    more: int = 0
    rest: str = ""
    is_local: bool = False
    is_left: bool = False
    first_us: float = 0.0
    raised: Exception | None = None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What a call was made with beside its requests. arity: as gRPC names it, "" where it is not known. timeout_s: its
    caller's, None without a deadline. channel: options of its channel. without: metadata that it had, and that a
    recording holds no value of; answered: the status that it had with them.
    """

    arity: str = ""
    metadata: Metadata = ()
    timeout_s: float | None = None
    channel: ChannelOptions = ()
    without: tuple[str, ...] = ()
    answered: str = ""


@dataclass(slots=True)
class Comparison:
    """One call: what the caller got, and what the shadow answered (None when none was asked, `why` says why).

    request: the message, or bytes, or the list of them where requests are a stream. ended_early: the caller left a
    stream before its end, so that only what both sent by then can be compared. unseen: what of it was not looked at,
    with the reasons. unfinished: the program ended before the call did.
    """

    method: str
    decision: Decision
    primary: CallOutcome
    shadow: CallOutcome | None = None
    request: Any = None
    why: str = ""
    ended_early: bool = False
    unseen: Mapping[str, str] = field(default_factory=dict[str, str])
    unfinished: bool = False
    options: CallOptions = CallOptions()


def ending_of(error: BaseException | None) -> Ending:
    """Return the ending of a typed call that raised `error`, None for nothing."""
    if error is None:
        return Ending()
    if not isinstance(error, TransportError):
        return Ending(Status.INTERNAL.name, error_text(error))
    code = status_of(error).name
    if isinstance(error, StatusError):
        return Ending(code, error.details, trailing=error.trailing)
    return Ending(code, str(error), is_local=isinstance(error, _LOCAL))


def as_seen(ending: Ending, took_ns: int, timeout_s: float | None) -> Ending:
    """Return how a call ended for its caller: DEADLINE_EXCEEDED before its clock says so is an answer."""
    if ending.code != Status.DEADLINE_EXCEEDED.name or not ending.is_local:
        return ending
    return replace(ending, is_local=timeout_s is not None and took_ns / 1e9 + _SLACK_S >= timeout_s)


def call_outcome(
    transport: str,
    items: Sequence[Any],
    ending: Ending,
    took_ns: int,
    *,
    dropped: int = 0,
    more: int = 0,
    rest: str = "",
) -> CallOutcome:
    """Return the outcome of a call over a transport; dropped, more, rest: as in `CallOutcome`."""
    end = ending.code, ending.details, ending.headers, ending.trailing
    return CallOutcome(transport, items, *end, max(0, took_ns) / 1e3, dropped, more, rest, ending.is_local)
