"""The states of one call, the same at both ends, and what each end may send in them; without I/O.

    request ──▶ OPEN ──half-close──▶ HALF_CLOSED ──response, end, error or cancel──▶ ENDED

Sending what the tables do not allow is a LocalProtocolError, receiving it a RemoteProtocolError, and that peer is
dropped. A call ends once; what the peer sent before it could know that is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag

from lucky_transport.codec.envelope import Kind
from lucky_transport.errors import LocalProtocolError, RemoteProtocolError


class Shape(IntFlag):
    """Which sides of a call are streams; 0 is a unary call. The values are the wire (`Envelope.streams`)."""

    UNARY = 0
    CLIENT_STREAM = 1
    SERVER_STREAM = 2
    BIDIRECTIONAL = 3


class StreamState(Enum):
    """Where a call stands. OPEN: the client may send items. ONE: the answer is one response; MANY: it is a stream."""

    OPEN_ONE = "open, awaiting one response"
    OPEN_MANY = "open, awaiting a stream"
    HALF_CLOSED_ONE = "awaiting one response"
    HALF_CLOSED_MANY = "awaiting a stream"
    ENDED = "ended"

    __hash__ = object.__hash__  # each is one object, and these are looked up in every call


#: What may be sent in a state, and the state that follows.
Transitions = dict[StreamState, dict[Kind, StreamState]]

_S = StreamState

CLIENT_SENDS: Transitions = {
    _S.OPEN_ONE: {Kind.STREAM_ITEM: _S.OPEN_ONE, Kind.HALF_CLOSE: _S.HALF_CLOSED_ONE, Kind.CANCEL: _S.ENDED},
    _S.OPEN_MANY: {
        Kind.STREAM_ITEM: _S.OPEN_MANY,
        Kind.CREDIT: _S.OPEN_MANY,
        Kind.HALF_CLOSE: _S.HALF_CLOSED_MANY,
        Kind.CANCEL: _S.ENDED,
    },
    _S.HALF_CLOSED_ONE: {Kind.CANCEL: _S.ENDED},
    _S.HALF_CLOSED_MANY: {Kind.CREDIT: _S.HALF_CLOSED_MANY, Kind.CANCEL: _S.ENDED},
    _S.ENDED: {},
}

#: The server may grant items until it learns of the half-close.
SERVER_SENDS: Transitions = {
    **{
        state: {Kind.CREDIT: state, Kind.HEADERS: state, Kind.RESPONSE: _S.ENDED, Kind.ERROR: _S.ENDED}
        for state in (_S.OPEN_ONE, _S.HALF_CLOSED_ONE)
    },
    **{
        state: {
            Kind.CREDIT: state,
            Kind.HEADERS: state,
            Kind.STREAM_ITEM: state,
            Kind.END: _S.ENDED,
            Kind.ERROR: _S.ENDED,
        }
        for state in (_S.OPEN_MANY, _S.HALF_CLOSED_MANY)
    },
    _S.ENDED: {},
}

#: The state of a call that was just opened, by shape.
_OPENED = (_S.HALF_CLOSED_ONE, _S.OPEN_ONE, _S.HALF_CLOSED_MANY, _S.OPEN_MANY)

#: For error texts: what one end cannot do, and what the other one sent.
_TEXTS = {
    Kind.REQUEST: ("open", "request"),
    Kind.RESPONSE: ("send the response", "response"),
    Kind.STREAM_ITEM: ("send an item", "stream item"),
    Kind.CREDIT: ("grant items", "credit"),
    Kind.HALF_CLOSE: ("end the sending", "half-close"),
    Kind.END: ("end the stream", "end"),
    Kind.CANCEL: ("cancel", "cancel"),
    Kind.ERROR: ("fail", "error"),
    Kind.HEADERS: ("send headers", "headers"),
}


def opened(shape: int) -> StreamState:
    """Return the state of a call of that shape right after its request.

    Raises RemoteProtocolError for a shape that does not exist.
    """
    if not 0 <= shape < len(_OPENED):
        raise RemoteProtocolError(f"a request with streams = {shape}; known are 0 to {len(_OPENED) - 1}")
    return _OPENED[shape]


def after(table: Transitions, state: StreamState, kind: Kind, what: Callable[[], str], *, ours: bool) -> StreamState:
    """Return the state that follows an envelope of that kind; `what()` names the call in the error text.

    Raises LocalProtocolError when the envelope is `ours` and not allowed, RemoteProtocolError when it is the peer's.
    """
    following = table[state].get(kind)
    if following is not None:
        return following
    doing, sent = _TEXTS[kind]
    if ours:
        hint = "open another one" if state is StreamState.ENDED else ""
        raise LocalProtocolError(f"cannot {doing}: {what()} is {state.value}", hint=hint)
    raise RemoteProtocolError(
        f"the peer sent a {sent}, but {what()} is {state.value}",
        hint="the peer is broken or speaks another protocol; connect again",
    )
