"""The life of a session, as a table.

    CREATING ──built──▶ READY ──begin──▶ PLAYING ──over──▶ OVER
        │                 ▲                 │               │
        │                 └─────rebuilt─────┴───────────────┘
        └──failed──▶ FAILED ◀──failed── READY, PLAYING, OVER
    any ──destroy──▶ GONE

Rule 1: all phases and transitions are in `TRANSITIONS`; nobody else decides what may follow what.
Rule 2: an event that the table does not know in a phase changes nothing: who asks again, or too late, does no harm.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DEAD", "ENDED", "TRANSITIONS", "Event", "Phase", "following"]


class Phase(Enum):
    """Where a session stands. CREATING: its world is being built. READY: built, nobody advanced it. PLAYING: it was
    advanced, runs or was given actions. OVER: its world has ended. FAILED: its world could not be built, or broke.
    GONE: destroyed.
    """

    CREATING = "creating"
    READY = "ready"
    PLAYING = "playing"
    OVER = "over"
    FAILED = "failed"
    GONE = "gone"


class Event(Enum):
    """What can happen to a session."""

    BUILT = "built"
    BEGIN = "begin"
    OVER = "over"
    REBUILT = "rebuilt"
    FAILED = "failed"
    DESTROY = "destroy"


TRANSITIONS: dict[Phase, dict[Event, Phase]] = {
    Phase.CREATING: {Event.BUILT: Phase.READY, Event.FAILED: Phase.FAILED, Event.DESTROY: Phase.GONE},
    Phase.READY: {
        Event.BEGIN: Phase.PLAYING,
        Event.OVER: Phase.OVER,
        Event.FAILED: Phase.FAILED,
        Event.DESTROY: Phase.GONE,
    },
    Phase.PLAYING: {
        Event.OVER: Phase.OVER,
        Event.REBUILT: Phase.READY,
        Event.FAILED: Phase.FAILED,
        Event.DESTROY: Phase.GONE,
    },
    Phase.OVER: {Event.REBUILT: Phase.READY, Event.FAILED: Phase.FAILED, Event.DESTROY: Phase.GONE},
    Phase.FAILED: {Event.DESTROY: Phase.GONE},
    Phase.GONE: {},
}


#: Nothing can be asked of a session in these phases ...
DEAD = frozenset((Phase.FAILED, Phase.GONE))
#: ... and in these its world goes on no more.
ENDED = DEAD | {Phase.OVER}


def following(phase: Phase, event: Event) -> Phase:
    """Return the phase after `event`, `phase` itself where the event means nothing."""
    return TRANSITIONS[phase].get(event, phase)
