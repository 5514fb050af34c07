"""The order of one exchange, for both ends, without I/O.

Rule 1: all states and transitions of stepping are in `TRANSITIONS`; nobody else decides what may follow what.
Rule 2: this file does not know any transport, array or clock.
Rule 3: the hot path keeps its state in an attribute; it comes here when that state is not the one it needs.

A client's exchange:                          the host's side of it:

    READY ──send──▶ SENT ──frame──▶ READY         IDLE ──actions──▶ STEPPING ──frame──▶ IDLE
                     │  ──refused─▶ READY                             └────────refused──▶ IDLE
                     └───lost─────▶ LOST          any ──close──▶ CLOSED
    any ──close──▶ CLOSED

`refused` is an exchange that ended without a frame (the engine raised, somebody else drives); `lost` is a dead peer.
"""

from __future__ import annotations

from enum import Enum

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError

__all__ = ["TRANSITIONS", "Event", "Lockstep", "State"]


class State(Enum):
    """Where one end stands."""

    READY = "ready"
    SENT = "sent"
    LOST = "lost"
    IDLE = "idle"
    STEPPING = "stepping"
    CLOSED = "closed"


class Event(Enum):
    """What can happen to an end."""

    SEND = "send"
    FRAME = "frame"
    REFUSED = "refused"
    LOST = "lost"
    ACTIONS = "actions"
    CLOSE = "close"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.READY: {Event.SEND: State.SENT, Event.LOST: State.LOST, Event.CLOSE: State.CLOSED},
    State.SENT: {
        Event.FRAME: State.READY,
        Event.REFUSED: State.READY,
        Event.LOST: State.LOST,
        Event.CLOSE: State.CLOSED,
    },
    State.LOST: {Event.LOST: State.LOST, Event.CLOSE: State.CLOSED},
    State.IDLE: {Event.ACTIONS: State.STEPPING, Event.CLOSE: State.CLOSED},
    State.STEPPING: {Event.FRAME: State.IDLE, Event.REFUSED: State.IDLE, Event.CLOSE: State.CLOSED},
    State.CLOSED: {Event.CLOSE: State.CLOSED},
}

_REMEDIES: dict[tuple[State, Event], tuple[type[TransportError], str]] = {
    (State.READY, Event.FRAME): (LocalProtocolError, "recv() without a send(); call send(actions) first"),
    (State.SENT, Event.SEND): (LocalProtocolError, "send() while a frame is outstanding; call recv() first"),
    (State.LOST, Event.SEND): (PeerDied, "the engine is gone; connect again"),
    (State.LOST, Event.FRAME): (PeerDied, "the engine is gone; connect again"),
    (State.CLOSED, Event.SEND): (ClosedError, "the transport is closed; connect again"),
    (State.CLOSED, Event.FRAME): (ClosedError, "the transport is closed; connect again"),
}


class Lockstep:
    """The state of one end; `on` is the only way to change it."""

    __slots__ = ("backend", "state")

    def __init__(self, state: State, backend: str = "") -> None:
        self.state = state
        self.backend = backend

    def on(self, event: Event) -> None:
        """Go to the state that follows `event`.

        Raises what the caller did wrong (LocalProtocolError, ClosedError) or what happened to the peer (PeerDied).
        """
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise self.state_error(event)
        self.state = following

    def state_error(self, event: Event) -> TransportError:
        """Return the error that explains why `event` cannot happen now."""
        kind, text = _REMEDIES.get(
            (self.state, event), (LocalProtocolError, f"{event.value} is not possible in state {self.state.value}")
        )
        return kind(text, backend=self.backend)
