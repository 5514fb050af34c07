"""The life cycle of a session, as a table.

    CREATING ──built──▶ READY ──begin──▶ PLAYING ──over──▶ OVER
        │                 ▲                 │               │
        │                 └─────rebuilt─────┴───────────────┘
        └──failed──▶ FAILED ◀──failed── READY, PLAYING, OVER
    any ──destroy──▶ GONE

`TRANSITIONS` holds all phases and transitions. An event that the table does not list for a phase changes nothing, so a
repeated or late call does no harm.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class Phase(StrEnum):
    """`SessionStatus.phase`.

    CREATING: its world is being built. READY: built, not advanced yet. PLAYING: it was advanced, runs, or got actions.
    OVER: its world has ended. FAILED: its world could not be built, or broke. GONE: destroyed.
    """

    CREATING = "creating"
    READY = "ready"
    PLAYING = "playing"
    OVER = "over"
    FAILED = "failed"
    GONE = "gone"


class SessionEvent(Enum):
    """What can happen to a session."""

    BUILT = "built"
    BEGIN = "begin"
    OVER = "over"
    REBUILT = "rebuilt"
    FAILED = "failed"
    DESTROY = "destroy"


TRANSITIONS: dict[Phase, dict[SessionEvent, Phase]] = {
    Phase.CREATING: {
        SessionEvent.BUILT: Phase.READY,
        SessionEvent.FAILED: Phase.FAILED,
        SessionEvent.DESTROY: Phase.GONE,
    },
    Phase.READY: {
        SessionEvent.BEGIN: Phase.PLAYING,
        SessionEvent.OVER: Phase.OVER,
        SessionEvent.FAILED: Phase.FAILED,
        SessionEvent.DESTROY: Phase.GONE,
    },
    Phase.PLAYING: {
        SessionEvent.OVER: Phase.OVER,
        SessionEvent.REBUILT: Phase.READY,
        SessionEvent.FAILED: Phase.FAILED,
        SessionEvent.DESTROY: Phase.GONE,
    },
    Phase.OVER: {
        SessionEvent.REBUILT: Phase.READY,
        SessionEvent.FAILED: Phase.FAILED,
        SessionEvent.DESTROY: Phase.GONE,
    },
    Phase.FAILED: {SessionEvent.DESTROY: Phase.GONE},
    Phase.GONE: {},
}


#: A session in one of these phases answers no call ...
DEAD = frozenset((Phase.FAILED, Phase.GONE))
#: ... and in one of these its world does not advance any more.
ENDED = DEAD | {Phase.OVER}


def following(phase: Phase, event: SessionEvent) -> Phase:
    """Return the phase after `event`: `phase` itself if the table does not list the event for it."""
    return TRANSITIONS[phase].get(event, phase)
