"""The life of one game as its player knows it, as a table.

    IDLE ──reset──▶ LAUNCHING ──spawned──▶ LOADING ──serving──▶ CONNECTING ──answered──▶ STREAMING ──first──▶ PLAYING
    IDLE ──found──▶ CONNECTING                                                          STREAMING ──plan──▶ PLANNING
    PLANNING ──act──▶ PLAYING ──over──▶ GAME_OVER ──end──▶ CLEANUP ──clean──▶ IDLE
    IDLE ──replay──▶ LOADING_REPLAY ──started──▶ REPLAYING ──consumed──▶ REPLAY_ENDED ──end──▶ CLEANUP
    a wait ──gave_up──▶ TIMEOUT ──end──▶ CLEANUP;  a need of the engine ──lost──▶ CONN_LOST ──end──▶ CLEANUP

All stages and transitions are in `TRANSITIONS`; nothing else decides what may follow what. From every stage but IDLE
the way goes on to CLEANUP, so nothing that was started is ever left behind.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from lucky_transport.state_machine import StateMachine


class MatchStage(Enum):
    """Where a game stands."""

    IDLE = "idle"
    LAUNCHING = "launching"
    LOADING = "loading"
    CONNECTING = "connecting"
    STREAMING = "streaming"
    PLANNING = "planning"
    PLAYING = "playing"
    GAME_OVER = "game over"
    LOADING_REPLAY = "loading replay"
    REPLAYING = "replaying"
    REPLAY_ENDED = "replay ended"
    TIMEOUT = "timeout"
    CONN_LOST = "connection lost"
    CLEANUP = "cleanup"


class MatchEvent(Enum):
    """What can happen to it."""

    RESET = "reset"
    FOUND = "found"
    REPLAY = "replay"
    SPAWNED = "spawned"
    SERVING = "serving"
    ANSWERED = "answered"
    FIRST = "first"
    PLAN = "plan"
    ACT = "act"
    OVER = "over"
    STARTED = "started"
    CONSUMED = "consumed"
    GAVE_UP = "gave up"
    LOST = "lost"
    END = "end"
    CLEAN = "clean"


def _waiting(**on: MatchStage) -> dict[MatchEvent, MatchStage]:
    """Return the row of a stage that waits for the engine: it may give up, lose it, or be ended from outside."""
    found = {MatchEvent[name.upper()]: stage for name, stage in on.items()}
    return found | {
        MatchEvent.GAVE_UP: MatchStage.TIMEOUT,
        MatchEvent.LOST: MatchStage.CONN_LOST,
        MatchEvent.END: MatchStage.CLEANUP,
    }


_ENDED = {MatchEvent.END: MatchStage.CLEANUP}

TRANSITIONS: dict[MatchStage, dict[MatchEvent, MatchStage]] = {
    MatchStage.IDLE: {
        MatchEvent.RESET: MatchStage.LAUNCHING,
        MatchEvent.FOUND: MatchStage.CONNECTING,
        MatchEvent.REPLAY: MatchStage.LOADING_REPLAY,
    },
    MatchStage.LAUNCHING: _waiting(spawned=MatchStage.LOADING),
    MatchStage.LOADING: _waiting(serving=MatchStage.CONNECTING),
    MatchStage.CONNECTING: _waiting(answered=MatchStage.STREAMING),
    MatchStage.STREAMING: _waiting(first=MatchStage.PLAYING, plan=MatchStage.PLANNING),
    MatchStage.PLANNING: _waiting(act=MatchStage.PLAYING),
    MatchStage.PLAYING: _waiting(over=MatchStage.GAME_OVER),
    MatchStage.GAME_OVER: _ENDED,
    MatchStage.LOADING_REPLAY: _waiting(started=MatchStage.REPLAYING),
    MatchStage.REPLAYING: _waiting(consumed=MatchStage.REPLAY_ENDED),
    MatchStage.REPLAY_ENDED: _ENDED,
    MatchStage.TIMEOUT: _ENDED,
    MatchStage.CONN_LOST: _ENDED,
    MatchStage.CLEANUP: {MatchEvent.CLEAN: MatchStage.IDLE},
}

_KEPT = 100


class Lifecycle(StateMachine[MatchStage, MatchEvent]):
    """The stage of one game, its `state`. `past`: the last hundred, the present one last."""

    def __init__(self) -> None:
        super().__init__(TRANSITIONS, MatchStage.IDLE, "openra")
        self.past: deque[MatchStage] = deque((MatchStage.IDLE,), maxlen=_KEPT)

    def on(self, event: MatchEvent) -> None:
        super().on(event)
        self.past.append(self.state)
