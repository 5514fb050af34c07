"""The order of the protocol for both ends, without I/O: what may follow what.

    the engine's end                                       the client's end

    IDLE ──run──▶ INIT ──END──▶ RUNNING ──over──▶ IDLE     IDLE ──run──▶ ASKED ──SUCCESS──▶ INIT ──END──▶ RUNNING
      └─unknown─▶ SPOILT ◀─broken─┘                                        └──refused──▶ IDLE       ──over──▶ IDLE
                    └──END──▶ IDLE, ──run──▶ INIT          any ──quit──▶ QUITTING ──gone──▶ CLOSED
    any ──quit──▶ CLOSED

Rule 1: all states and transitions are in the two tables; nobody else decides what may follow what.
Rule 2: a line that the table has no place for changes nothing: the engine warns, and reads on.
Rule 3: what was sent for an experiment that did not come to be (SPOILT) is passed over, without a word, up to its END.
"""

from __future__ import annotations

from enum import Enum

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, TransportError
from lucky_transport_pipe.address import BACKEND

__all__ = ["CLIENT", "ENGINE", "Control", "Event", "State", "Table"]


class State(Enum):
    """Where one end stands."""

    IDLE = "idle"
    ASKED = "waiting for the answer to run"
    INIT = "taking init data"
    SPOILT = "passing over init data"
    RUNNING = "running an experiment"
    QUITTING = "quitting"
    CLOSED = "closed"
    LOST = "lost"


class Event(Enum):
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


Table = dict[State, dict[Event, State]]

ENGINE: Table = {
    State.IDLE: {Event.RUN: State.INIT, Event.UNKNOWN: State.SPOILT, Event.QUIT: State.CLOSED},
    State.INIT: {
        Event.DATA: State.INIT,
        Event.BROKEN: State.SPOILT,
        Event.END: State.RUNNING,
        Event.QUIT: State.CLOSED,
    },
    State.SPOILT: {
        Event.RUN: State.INIT,
        Event.UNKNOWN: State.SPOILT,
        Event.DATA: State.SPOILT,
        Event.END: State.IDLE,
        Event.QUIT: State.CLOSED,
    },
    State.RUNNING: {
        Event.COMMAND: State.RUNNING,
        Event.OVER: State.IDLE,
        Event.FAILED: State.IDLE,
        Event.QUIT: State.CLOSED,
    },
    State.CLOSED: {},
}

_ANY_TIME = {Event.QUIT: State.QUITTING, Event.GONE: State.CLOSED, Event.LOST: State.LOST}

CLIENT: Table = {
    State.IDLE: {Event.RUN: State.ASKED} | _ANY_TIME,
    State.ASKED: {Event.ACCEPTED: State.INIT, Event.REFUSED: State.IDLE} | _ANY_TIME,
    State.INIT: {Event.DATA: State.INIT, Event.END: State.RUNNING, Event.FAILED: State.IDLE} | _ANY_TIME,
    State.RUNNING: {Event.COMMAND: State.RUNNING, Event.OVER: State.IDLE, Event.FAILED: State.IDLE} | _ANY_TIME,
    State.QUITTING: {Event.GONE: State.CLOSED, Event.LOST: State.CLOSED},
    State.LOST: {Event.LOST: State.LOST},
    State.CLOSED: {Event.LOST: State.CLOSED, Event.GONE: State.CLOSED},
}

_ENDINGS: dict[State, tuple[type[TransportError], str, str]] = {
    State.LOST: (PeerDied, "the engine is gone", "connect again once it is back"),
    State.QUITTING: (ClosedError, "the engine was told to quit", "connect again"),
    State.CLOSED: (ClosedError, "the pipe is closed", "connect again"),
}


class Control:
    """The state of one end; `on` is the only way to change it."""

    __slots__ = ("_table", "state")

    def __init__(self, table: Table) -> None:
        self._table = table
        self.state = State.IDLE

    def allows(self, event: Event) -> bool:
        """True when `event` may happen now."""
        return event in self._table[self.state]

    def on(self, event: Event) -> None:
        """Go to the state that follows `event`.

        Raises what became of the peer (PeerDied, ClosedError), else LocalProtocolError naming state and event.
        """
        following = self._table[self.state].get(event)
        if following is None:
            raise self.state_error(event)
        self.state = following

    def state_error(self, event: Event) -> TransportError:
        """Return the error that explains why `event` cannot happen now."""
        if self.state in _ENDINGS:
            kind, text, hint = _ENDINGS[self.state]
            return kind(text, backend=BACKEND, hint=hint)
        allowed = ", ".join(each.value for each in self._table[self.state])
        return LocalProtocolError(
            f"{event.value} is not possible while {self.state.value}", backend=BACKEND, hint=f"possible are: {allowed}"
        )
