"""The order of the protocol for both ends, without I/O: two tables say what may follow what.

the engine's end                                       the client's end

IDLE ──run──▶ INIT ──END──▶ RUNNING ──over──▶ IDLE     IDLE ──run──▶ ASKED ──SUCCESS──▶ INIT ──END──▶ RUNNING
└─unknown─▶ SKIPPING ◀─broken─┘                                      └──refused──▶ IDLE       ──over──▶ IDLE
└──END──▶ IDLE, ──run──▶ INIT          any ──quit──▶ QUITTING ──gone──▶ CLOSED
any ──quit──▶ CLOSED
"""

from __future__ import annotations

from enum import Enum

from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.state_machine import StateMachine
from lucky_transport_pipe.address import BACKEND


class ControlState(Enum):
    """Where one end stands."""

    IDLE = "idle"
    ASKED = "waiting for the answer to run"
    INIT = "taking init data"
    SKIPPING = "passing over init data"  # of an experiment that cannot start, up to its END
    RUNNING = "running an experiment"
    QUITTING = "quitting"
    CLOSED = "closed"
    LOST = "lost"


class ControlEvent(Enum):
    """What can happen."""

    RUN = "run"
    UNKNOWN = "run of an unknown experiment"
    ACCEPTED = "SUCCESS"
    REFUSED = "refusal"
    DATA = "init data"
    BROKEN = "broken init data"
    END = "END"
    COMMAND = "a command"
    OVER = "end of the experiment"
    FAILED = "failure"
    QUIT = "quit"
    GONE = "QUIT"
    LOST = "loss of the peer"


Table = dict[ControlState, dict[ControlEvent, ControlState]]

ENGINE: Table = {
    ControlState.IDLE: {
        ControlEvent.RUN: ControlState.INIT,
        ControlEvent.UNKNOWN: ControlState.SKIPPING,
        ControlEvent.QUIT: ControlState.CLOSED,
    },
    ControlState.INIT: {
        ControlEvent.DATA: ControlState.INIT,
        ControlEvent.BROKEN: ControlState.SKIPPING,
        ControlEvent.END: ControlState.RUNNING,
        ControlEvent.QUIT: ControlState.CLOSED,
    },
    ControlState.SKIPPING: {
        ControlEvent.RUN: ControlState.INIT,
        ControlEvent.UNKNOWN: ControlState.SKIPPING,
        ControlEvent.DATA: ControlState.SKIPPING,
        ControlEvent.END: ControlState.IDLE,
        ControlEvent.QUIT: ControlState.CLOSED,
    },
    ControlState.RUNNING: {
        ControlEvent.COMMAND: ControlState.RUNNING,
        ControlEvent.OVER: ControlState.IDLE,
        ControlEvent.FAILED: ControlState.IDLE,
        ControlEvent.QUIT: ControlState.CLOSED,
    },
    ControlState.CLOSED: {},
}

_ANY_TIME = {
    ControlEvent.QUIT: ControlState.QUITTING,
    ControlEvent.GONE: ControlState.CLOSED,
    ControlEvent.LOST: ControlState.LOST,
}

CLIENT: Table = {
    ControlState.IDLE: {ControlEvent.RUN: ControlState.ASKED} | _ANY_TIME,
    ControlState.ASKED: {ControlEvent.ACCEPTED: ControlState.INIT, ControlEvent.REFUSED: ControlState.IDLE} | _ANY_TIME,
    ControlState.INIT: {
        ControlEvent.DATA: ControlState.INIT,
        ControlEvent.END: ControlState.RUNNING,
        ControlEvent.FAILED: ControlState.IDLE,
    }
    | _ANY_TIME,
    ControlState.RUNNING: {
        ControlEvent.COMMAND: ControlState.RUNNING,
        ControlEvent.OVER: ControlState.IDLE,
        ControlEvent.FAILED: ControlState.IDLE,
    }
    | _ANY_TIME,
    ControlState.QUITTING: {ControlEvent.GONE: ControlState.CLOSED, ControlEvent.LOST: ControlState.CLOSED},
    ControlState.LOST: {ControlEvent.LOST: ControlState.LOST},
    ControlState.CLOSED: {ControlEvent.LOST: ControlState.CLOSED, ControlEvent.GONE: ControlState.CLOSED},
}

_ENDINGS: dict[ControlState, tuple[type[TransportError], str, str]] = {
    ControlState.LOST: (PeerDied, "the engine is gone", "connect again once it is back"),
    ControlState.QUITTING: (ClosedError, "the engine was told to quit", "connect again"),
    ControlState.CLOSED: (ClosedError, "the pipe is closed", "connect again"),
}


class Control(StateMachine[ControlState, ControlEvent]):
    """The state of one end. `state_error` is what became of the peer: PeerDied, ClosedError."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, ControlState.IDLE, BACKEND)

    def state_error(self, event: ControlEvent) -> TransportError:
        if self.state not in _ENDINGS:
            return super().state_error(event)
        kind, text, hint = _ENDINGS[self.state]
        return kind(text, backend=BACKEND, hint=hint)
