"""The states of a client in one exchange, without I/O: `TRANSITIONS` says what may follow what.

`LockstepTransport` is the base of transports whose exchanges go through arrays of this process.

    READY ──send──▶ SENT ──frame──▶ READY
                     │  ──refused─▶ READY      the exchange ended without a frame: the engine raised, another drives
                     └───lost─────▶ LOST       the peer died
    READY ──send envs──▶ ENVS ──last env──▶ READY    more may be sent meanwhile
                          └─────lost─────▶ LOST
    any ──close──▶ CLOSED

The hot path keeps its state in an attribute and comes here only when that state is not the one it needs.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.state_machine import StateMachine
from lucky_transport.transport import Frame, Transport

__all__ = ["TRANSITIONS", "Lockstep", "LockstepEvent", "LockstepState", "LockstepTransport"]


class LockstepState(Enum):
    """The state of a client."""

    READY = "ready"
    SENT = "sent"
    ENVS = "envs under way"
    LOST = "lost"
    CLOSED = "closed"


class LockstepEvent(Enum):
    """An event in an exchange."""

    SEND = "send"
    FRAME = "frame"
    SEND_ENVS = "send envs"
    LAST_ENV = "last env"
    REFUSED = "refused"
    LOST = "lost"
    CLOSE = "close"


TRANSITIONS: dict[LockstepState, dict[LockstepEvent, LockstepState]] = {
    LockstepState.READY: {
        LockstepEvent.SEND: LockstepState.SENT,
        LockstepEvent.SEND_ENVS: LockstepState.ENVS,
        LockstepEvent.LOST: LockstepState.LOST,
        LockstepEvent.CLOSE: LockstepState.CLOSED,
    },
    LockstepState.SENT: {
        LockstepEvent.FRAME: LockstepState.READY,
        LockstepEvent.REFUSED: LockstepState.READY,
        LockstepEvent.LOST: LockstepState.LOST,
        LockstepEvent.CLOSE: LockstepState.CLOSED,
    },
    LockstepState.ENVS: {
        LockstepEvent.SEND_ENVS: LockstepState.ENVS,
        LockstepEvent.LAST_ENV: LockstepState.READY,
        LockstepEvent.LOST: LockstepState.LOST,
        LockstepEvent.CLOSE: LockstepState.CLOSED,
    },
    LockstepState.LOST: {LockstepEvent.LOST: LockstepState.LOST, LockstepEvent.CLOSE: LockstepState.CLOSED},
    LockstepState.CLOSED: {  # REFUSED: closed within an exchange, as by a signal handler
        LockstepEvent.CLOSE: LockstepState.CLOSED,
        LockstepEvent.REFUSED: LockstepState.CLOSED,
    },
}

_GONE = PeerDied, "the engine is gone; connect again"
_CLOSED = ClosedError, "the transport is closed; connect again"
_ENVS_UNDER_WAY = "while envs are under way; call recv_envs() until none is"

_REMEDIES: dict[tuple[LockstepState, LockstepEvent], tuple[type[TransportError], str]] = {
    (LockstepState.READY, LockstepEvent.FRAME): (
        LocalProtocolError,
        "recv() without a send(); call send(actions) first",
    ),
    (LockstepState.SENT, LockstepEvent.SEND): (
        LocalProtocolError,
        "send() while a frame is outstanding; call recv() first",
    ),
    (LockstepState.SENT, LockstepEvent.SEND_ENVS): (
        LocalProtocolError,
        "send_envs() while a frame is outstanding; call recv() first",
    ),
    (LockstepState.ENVS, LockstepEvent.SEND): (LocalProtocolError, f"send() {_ENVS_UNDER_WAY}"),
    (LockstepState.ENVS, LockstepEvent.FRAME): (LocalProtocolError, f"recv() {_ENVS_UNDER_WAY}"),
    (LockstepState.READY, LockstepEvent.LAST_ENV): (
        LocalProtocolError,
        "recv_envs() with no env under way; call send_envs() first",
    ),
    (LockstepState.SENT, LockstepEvent.LAST_ENV): (
        LocalProtocolError,
        "recv_envs() while a frame is outstanding; call recv() first",
    ),
    **{
        (state, event): remedy
        for state, remedy in ((LockstepState.LOST, _GONE), (LockstepState.CLOSED, _CLOSED))
        for event in (LockstepEvent.SEND, LockstepEvent.FRAME, LockstepEvent.SEND_ENVS, LockstepEvent.LAST_ENV)
    },
}


class Lockstep(StateMachine[LockstepState, LockstepEvent]):
    """The state of one client. `state_error` is LocalProtocolError or ClosedError for a mistake of the caller, PeerDied
    when the peer died.
    """

    __slots__ = ()

    def __init__(self, state: LockstepState, backend: str = "") -> None:
        super().__init__(TRANSITIONS, state, backend)

    def state_error(self, event: LockstepEvent) -> TransportError:
        if (self.state, event) not in _REMEDIES:
            return super().state_error(event)
        kind, text = _REMEDIES[self.state, event]
        return kind(text, backend=self.backend, hint=text.rpartition("; ")[2])


class LockstepTransport(Transport):
    """Checks all of an exchange before any of it is kept: `send` begins with `_check` and `_keep`, `recv` with
    `_check_sent`, and ends with `_numbered`. It belongs to the process that made it: a forked child gets ClosedError.
    """

    def __init__(self, spec: BatchSpec, actions: NDArray[Any]) -> None:
        self.spec = spec
        self.actions = actions
        self._pid = os.getpid()
        self._bounds = Bounds(spec.action)
        self._lockstep = Lockstep(LockstepState.READY, self.name)
        self._seq = 0

    def _check(
        self, actions: NDArray[Any], control: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
        """Return both as they are to be sent; raises what `send` raises."""
        if self._lockstep.state is not LockstepState.READY:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()
        in_place = actions is self.actions and self.capabilities.zero_copy
        checked = actions if in_place else check_actions(self.spec, actions)
        return checked, None if control is None else check_control(self.spec, control)

    def _keep(self, checked: NDArray[Any]) -> None:
        """Put the actions that `_check` returned into `actions`."""
        if checked is not self.actions:
            np.copyto(self.actions, checked)
        if checked is not self.actions or not self.capabilities.zero_copy:
            self.out_of_bounds += self._bounds.count_outside(checked)

    def _check_sent(self) -> None:
        """Raise what `recv` raises where no exchange is open."""
        if self._lockstep.state is not LockstepState.SENT:
            raise self._lockstep.state_error(LockstepEvent.FRAME)
        self._check_process()

    def _numbered(self, frame: Frame) -> Frame:
        """Return the frame with the number of its exchange."""
        self._seq += 1
        frame.seq = self._seq
        frame.any_ended = bool(frame.terminated.any() or frame.truncated.any())
        return frame

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                "this transport belongs to the parent process", backend=self.name, hint="connect again after fork()"
            )
