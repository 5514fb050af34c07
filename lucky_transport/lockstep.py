"""The states of a client in one exchange, without I/O: `TRANSITIONS` says what may follow what.

    READY ──send──▶ SENT ──frame──▶ READY
                     │  ──refused─▶ READY      the exchange ended without a frame: the engine raised, another drives
                     └───lost─────▶ LOST       the peer died
    any ──close──▶ CLOSED

The hot path keeps its state in an attribute and comes here only when that state is not the one it needs.
"""

from __future__ import annotations

from enum import Enum

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError

__all__ = ["TRANSITIONS", "Lockstep", "LockstepEvent", "LockstepState"]


class LockstepState(Enum):
    """The state of a client."""

    READY = "ready"
    SENT = "sent"
    LOST = "lost"
    CLOSED = "closed"


class LockstepEvent(Enum):
    """An event in an exchange."""

    SEND = "send"
    FRAME = "frame"
    REFUSED = "refused"
    LOST = "lost"
    CLOSE = "close"


TRANSITIONS: dict[LockstepState, dict[LockstepEvent, LockstepState]] = {
    LockstepState.READY: {
        LockstepEvent.SEND: LockstepState.SENT,
        LockstepEvent.LOST: LockstepState.LOST,
        LockstepEvent.CLOSE: LockstepState.CLOSED,
    },
    LockstepState.SENT: {
        LockstepEvent.FRAME: LockstepState.READY,
        LockstepEvent.REFUSED: LockstepState.READY,
        LockstepEvent.LOST: LockstepState.LOST,
        LockstepEvent.CLOSE: LockstepState.CLOSED,
    },
    LockstepState.LOST: {LockstepEvent.LOST: LockstepState.LOST, LockstepEvent.CLOSE: LockstepState.CLOSED},
    LockstepState.CLOSED: {  # REFUSED: closed within an exchange, as by a signal handler
        LockstepEvent.CLOSE: LockstepState.CLOSED,
        LockstepEvent.REFUSED: LockstepState.CLOSED,
    },
}

_REMEDIES: dict[tuple[LockstepState, LockstepEvent], tuple[type[TransportError], str]] = {
    (LockstepState.READY, LockstepEvent.FRAME): (
        LocalProtocolError,
        "recv() without a send(); call send(actions) first",
    ),
    (LockstepState.SENT, LockstepEvent.SEND): (
        LocalProtocolError,
        "send() while a frame is outstanding; call recv() first",
    ),
    (LockstepState.LOST, LockstepEvent.SEND): (PeerDied, "the engine is gone; connect again"),
    (LockstepState.LOST, LockstepEvent.FRAME): (PeerDied, "the engine is gone; connect again"),
    (LockstepState.CLOSED, LockstepEvent.SEND): (ClosedError, "the transport is closed; connect again"),
    (LockstepState.CLOSED, LockstepEvent.FRAME): (ClosedError, "the transport is closed; connect again"),
}


class Lockstep:
    """The state of one client; `on` is the only way to change it."""

    __slots__ = ("backend", "state")

    def __init__(self, state: LockstepState, backend: str = "") -> None:
        self.state = state
        self.backend = backend

    def on(self, event: LockstepEvent) -> None:
        """Go to the state that follows `event`.

        Raises LocalProtocolError or ClosedError for a mistake of the caller, PeerDied when the peer died.
        """
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise self.state_error(event)
        self.state = following

    def state_error(self, event: LockstepEvent) -> TransportError:
        """Return the error that explains why `event` cannot happen now."""
        kind, text = _REMEDIES.get(
            (self.state, event), (LocalProtocolError, f"{event.value} is not possible in state {self.state.value}")
        )
        return kind(text, backend=self.backend)
