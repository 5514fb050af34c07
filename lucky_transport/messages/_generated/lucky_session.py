"""Sessions: many worlds in one engine. Each is created, advanced, watched and destroyed independently of the others.

Generated from proto/lucky_session.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import F64, U32, U64, no_items

__all__ = [
    "ActInSessionRequest",
    "ActInSessionResponse",
    "AdvanceSessionRequest",
    "AdvanceSessionResponse",
    "CreateSessionRequest",
    "CreateSessionResponse",
    "DestroySessionResponse",
    "GetLatestRequest",
    "GetWorldsRequest",
    "GetWorldsResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "RecordedActions",
    "RestartSessionRequest",
    "RunSessionRequest",
    "RunSessionResponse",
    "SessionAction",
    "SessionRecording",
    "SessionRequest",
    "SessionSnapshot",
    "SessionStatus",
]


@dataclass(slots=True)
class GetWorldsRequest:
    """Asks for the worlds that the engine offers."""


@dataclass(slots=True)
class GetWorldsResponse:
    """maps: names of worlds, the first is the default. events: names that may interrupt an advance. tick_s: the
    simulated time of a tick, in seconds.
    """

    maps: list[str] = field(default_factory=no_items)
    events: list[str] = field(default_factory=no_items)
    tick_s: F64 = 0.0


@dataclass(slots=True)
class SessionAction:
    """One action: a message of `Worlds.action`, encoded."""

    payload: bytes = b""


@dataclass(slots=True)
class RecordedActions:
    """The actions that a world took when it had done `tick` ticks, in order."""

    tick: U64 = 0
    actions: list[SessionAction] = field(default_factory=no_items)


@dataclass(slots=True)
class SessionRecording:
    """All that replays a session: how its world was made, the actions it took, and for how many `ticks` it ran."""

    map_name: str = ""
    seed: U64 = 0
    options_json: str = ""
    ticks: U64 = 0
    actions: list[RecordedActions] = field(default_factory=no_items)


@dataclass(slots=True)
class CreateSessionRequest:
    """Asks for a session. `map_name` "" is the default one, `options_json` a JSON object ("" = none).

    owned: it is destroyed when the client that created it leaves. record: its actions are kept for GetRecording.
    recording: replay this one instead; of the other fields only `owned` then counts.
    """

    map_name: str = ""
    seed: U64 | None = None
    options_json: str = ""
    owned: bool = False
    record: bool = False
    recording: SessionRecording | None = None


@dataclass(slots=True)
class CreateSessionResponse:
    """The id of the new session, whose world is being built."""

    session_id: str = ""


@dataclass(slots=True)
class SessionRequest:
    """Names a session."""

    session_id: str = ""


@dataclass(slots=True)
class SessionStatus:
    """The status of a session. `phase` is creating, ready, playing, over, failed or gone.

    result: how its world ended, "" while it goes on. error: why it failed. dropped: actions that newer ones pushed out.
    rate_hz: ticks a second; absent when it does not run freely, 0 when it runs as fast as it can.
    """

    session_id: str = ""
    map_name: str = ""
    phase: str = ""
    ticks: U64 = 0
    is_over: bool = False
    result: str = ""
    score: F64 = 0.0
    error: str = ""
    dropped: U64 = 0
    rate_hz: F64 | None = None


@dataclass(slots=True)
class ListSessionsRequest:
    """Asks for the ids of all sessions."""


@dataclass(slots=True)
class ListSessionsResponse:
    """The ids, oldest first."""

    session_ids: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class SessionSnapshot:
    """A world at tick `ticks`: its observation, encoded, and how far it has come."""

    observation: bytes = b""
    ticks: U64 = 0
    is_over: bool = False
    result: str = ""
    score: F64 = 0.0


@dataclass(slots=True)
class AdvanceSessionRequest:
    """Asks a world to take `actions` and advance by `ticks` (0: only the snapshot).

    interrupts: events that end the advance early, checked every `check_every` ticks (0 counts as 1).
    """

    session_id: str = ""
    ticks: U32 = 0
    actions: list[SessionAction] = field(default_factory=no_items)
    interrupts: list[str] = field(default_factory=no_items)
    check_every: U32 = 0


@dataclass(slots=True)
class AdvanceSessionResponse:
    """The world afterwards, the ticks it did, and the event that ended it early ("" when none did)."""

    snapshot: SessionSnapshot | None = None
    ticks_done: U32 = 0
    interrupt: str = ""


@dataclass(slots=True)
class ActInSessionRequest:
    """Has a world take these actions in its next tick; at most 16 are pending."""

    session_id: str = ""
    actions: list[SessionAction] = field(default_factory=no_items)


@dataclass(slots=True)
class ActInSessionResponse:
    """The number of older actions that were dropped for these."""

    dropped: U32 = 0


@dataclass(slots=True)
class RunSessionRequest:
    """Lets a session run freely, `rate_hz` ticks a second (0: as fast as it can); absent stops it."""

    session_id: str = ""
    rate_hz: F64 | None = None


@dataclass(slots=True)
class RunSessionResponse:
    """The session runs, or stands still."""


@dataclass(slots=True)
class GetLatestRequest:
    """Asks for the newest snapshot of a world, later than `after_tick` where that is given.

    The engine waits only a moment: a response without an observation means that there is none yet; ask again.
    """

    session_id: str = ""
    after_tick: U64 | None = None


@dataclass(slots=True)
class RestartSessionRequest:
    """Restarts a session's world with `seed` (absent: the engine's choice)."""

    session_id: str = ""
    seed: U64 | None = None


@dataclass(slots=True)
class DestroySessionResponse:
    """There is no session of that id any more."""
