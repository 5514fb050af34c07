"""What may follow what in the life of one call, for both ends, without I/O.

    the caller:    IDLE ──open──▶ SENDING ──half-close──▶ AWAITING ──response, end, error──▶ ENDED
    the answerer:  IDLE ──open──▶ RECEIVING ─half-close─▶ ANSWERING ──response, end, error──▶ ENDED

All states and transitions of calls are in `CALLER` and `ANSWERER`. A local event that the table does not know is a
LocalProtocolError; one of the peer's is a RemoteProtocolError, and that peer is dropped. A call ends once; what the
peer sent before it could know has no row here and is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag

from lucky_transport.errors import LocalProtocolError, RemoteProtocolError, TransportError

__all__ = ["ANSWERER", "CALLER", "Shape", "StreamEvent", "StreamState", "after", "opened"]


class Shape(IntFlag):
    """Which sides of a call are streams; 0 is a unary call. The values are the wire (`Envelope.streams`)."""

    UNARY = 0
    CLIENT_STREAM = 1
    SERVER_STREAM = 2
    BIDIRECTIONAL = 3


class StreamState(Enum):
    """Where one end of a call stands. ONE: the answer is one response; MANY: it is a stream."""

    IDLE = "not opened"
    SENDING_ONE = "sending, awaits one response"
    SENDING_MANY = "sending, awaits a stream"
    AWAITING_ONE = "awaiting one response"
    AWAITING_MANY = "awaiting a stream"
    RECEIVING_ONE = "receiving, owes one response"
    RECEIVING_MANY = "receiving, owes a stream"
    ANSWERING_ONE = "owing one response"
    ANSWERING_MANY = "owing a stream"
    ENDED = "ended"

    __hash__ = object.__hash__  # each is one object, and these are looked up in every call


class StreamEvent(Enum):
    """What happens to one end; the value tells whose doing it is and what it is."""

    __hash__ = object.__hash__

    OPEN = ("ours", "open")
    SEND = ("ours", "send an item")
    HALF_CLOSE = ("ours", "end the sending")
    CANCEL = ("ours", "cancel")
    RESPOND = ("ours", "send the response")
    FINISH = ("ours", "end the stream")
    FAIL = ("ours", "fail")
    START = ("ours", "send headers")
    LOSE = ("ours", "give up")
    PEER_OPENS = ("peer's", "request")
    PEER_SENDS = ("peer's", "stream item")
    PEER_HALF_CLOSES = ("peer's", "half-close")
    PEER_CANCELS = ("peer's", "cancel")
    PEER_RESPONDS = ("peer's", "response")
    PEER_FINISHES = ("peer's", "end")
    PEER_FAILS = ("peer's", "error")
    PEER_GRANTS = ("peer's", "credit")
    PEER_STARTS = ("peer's", "headers")

    def __init__(self, whose: str, what: str) -> None:
        self.is_ours = whose == "ours"  # what this side does
        self.what = what


Table = dict[StreamState, dict[StreamEvent, StreamState]]

_E, _S = StreamEvent, StreamState
_ENDED = StreamState.ENDED
#: What may end any open call, on either side.
_CALLER_ENDS = {_E.CANCEL: _ENDED, _E.LOSE: _ENDED, _E.PEER_FAILS: _ENDED}
_ANSWERER_ENDS = {_E.PEER_CANCELS: _ENDED, _E.LOSE: _ENDED, _E.FAIL: _ENDED}
#: An ended call stays so, whatever we still do to end it.
_OVER = {_E.CANCEL: _ENDED, _E.LOSE: _ENDED}

CALLER: Table = {
    _S.IDLE: {},
    _S.SENDING_ONE: {
        _E.SEND: _S.SENDING_ONE,
        _E.PEER_GRANTS: _S.SENDING_ONE,
        _E.PEER_STARTS: _S.SENDING_ONE,
        _E.HALF_CLOSE: _S.AWAITING_ONE,
        _E.PEER_RESPONDS: _ENDED,
        **_CALLER_ENDS,
    },
    _S.SENDING_MANY: {
        _E.SEND: _S.SENDING_MANY,
        _E.PEER_GRANTS: _S.SENDING_MANY,
        _E.PEER_STARTS: _S.SENDING_MANY,
        _E.HALF_CLOSE: _S.AWAITING_MANY,
        _E.PEER_SENDS: _S.SENDING_MANY,
        _E.PEER_FINISHES: _ENDED,
        **_CALLER_ENDS,
    },
    _S.AWAITING_ONE: {
        _E.PEER_GRANTS: _S.AWAITING_ONE,
        _E.PEER_STARTS: _S.AWAITING_ONE,
        _E.PEER_RESPONDS: _ENDED,
        **_CALLER_ENDS,
    },
    _S.AWAITING_MANY: {
        _E.PEER_GRANTS: _S.AWAITING_MANY,
        _E.PEER_STARTS: _S.AWAITING_MANY,
        _E.PEER_SENDS: _S.AWAITING_MANY,
        _E.PEER_FINISHES: _ENDED,
        **_CALLER_ENDS,
    },
    _S.ENDED: _OVER,
}

ANSWERER: Table = {
    _S.IDLE: {},
    _S.RECEIVING_ONE: {
        _E.PEER_SENDS: _S.RECEIVING_ONE,
        _E.PEER_HALF_CLOSES: _S.ANSWERING_ONE,
        _E.START: _S.RECEIVING_ONE,
        _E.RESPOND: _ENDED,
        **_ANSWERER_ENDS,
    },
    _S.RECEIVING_MANY: {
        _E.PEER_SENDS: _S.RECEIVING_MANY,
        _E.PEER_HALF_CLOSES: _S.ANSWERING_MANY,
        _E.PEER_GRANTS: _S.RECEIVING_MANY,
        _E.START: _S.RECEIVING_MANY,
        _E.SEND: _S.RECEIVING_MANY,
        _E.FINISH: _ENDED,
        **_ANSWERER_ENDS,
    },
    _S.ANSWERING_ONE: {_E.START: _S.ANSWERING_ONE, _E.RESPOND: _ENDED, **_ANSWERER_ENDS},
    _S.ANSWERING_MANY: {
        _E.PEER_GRANTS: _S.ANSWERING_MANY,
        _E.START: _S.ANSWERING_MANY,
        _E.SEND: _S.ANSWERING_MANY,
        _E.FINISH: _ENDED,
        **_ANSWERER_ENDS,
    },
    _S.ENDED: _OVER,
}

#: The state that opening (the caller) or being opened (the answerer) leads to, by shape.
_OPENED = {
    StreamEvent.OPEN: (_S.AWAITING_ONE, _S.SENDING_ONE, _S.AWAITING_MANY, _S.SENDING_MANY),
    StreamEvent.PEER_OPENS: (_S.ANSWERING_ONE, _S.RECEIVING_ONE, _S.ANSWERING_MANY, _S.RECEIVING_MANY),
}


def opened(event: StreamEvent, shape: int) -> StreamState:
    """Return the state of a call of that shape right after `event`, OPEN or PEER_OPENS.

    Raises RemoteProtocolError for a shape that does not exist.
    """
    states = _OPENED[event]
    if not 0 <= shape < len(states):
        raise RemoteProtocolError(f"a request with streams = {shape}; known are 0 to {len(states) - 1}")
    return states[shape]


def after(
    table: Table, state: StreamState, event: StreamEvent, what: Callable[[], str] = lambda: "the call"
) -> StreamState:
    """Return the state that follows `event`; `what()` names the call in the error text.

    Raises LocalProtocolError when the event is ours and impossible, RemoteProtocolError when it is the peer's.
    """
    following = table[state].get(event)
    if following is None:
        raise _refusal(state, event, what())
    return following


def _refusal(state: StreamState, event: StreamEvent, what: str) -> TransportError:
    if event.is_ours:
        hint = "open another one" if state is StreamState.ENDED else ""
        return LocalProtocolError(f"cannot {event.what}: {what} is {state.value}", hint=hint)
    return RemoteProtocolError(
        f"the peer sent a {event.what}, but {what} is {state.value}",
        hint="the peer is broken or speaks another protocol; connect again",
    )
