"""What a client can do with the sessions of an engine, the same in the engine's process and over every transport.

`Sessions` implements it in the engine's process, `SessionClient` over a transport; a plugin may implement it over the
protocol of another system.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, PeerTimeout, Unimplemented
from lucky_transport.messages import SessionRecording, SessionStatus
from lucky_transport.world import Worlds

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "AdvanceRequest",
    "AdvanceResult",
    "SessionApi",
    "WorldSnapshot",
    "check_distinct",
    "nothing_newer",
]

#: The deadline, in seconds, of a call that brings none: worlds take longer than commands.
DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """A world as it was at tick `ticks`.

    The message `SessionSnapshot` carries the same with its observation encoded. observation: a message of
    `Worlds.observation`; the caller owns it. is_over, result, score: see `WorldProgress`.
    """

    observation: Any
    ticks: int
    is_over: bool
    result: str
    score: float


@dataclass(frozen=True, slots=True)
class AdvanceResult(WorldSnapshot):
    """The snapshot after an advance.

    ticks_done: how many ticks it took. interrupt: the event that ended it early, "" if none did.
    """

    ticks_done: int = 0
    interrupt: str = ""

    @classmethod
    def after(cls, snapshot: WorldSnapshot, ticks_done: int, interrupt: str) -> AdvanceResult:
        """Return the result of an advance of `ticks_done` ticks that ended with `snapshot`."""
        seen = snapshot
        return cls(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score, ticks_done, interrupt)


@dataclass(frozen=True, slots=True)
class AdvanceRequest:
    """One session's part of `SessionApi.advance_all`; the fields are the arguments of `SessionApi.advance`."""

    session_id: str
    ticks: int = 1
    actions: Sequence[Any] = ()
    interrupts: Collection[str] = ()
    check_every: int = 1


class SessionApi(ABC):
    """The sessions of one engine. worlds: describes the messages of their actions and observations.

    Any method may also raise what a transport raises: PeerDied, PeerTimeout, ClosedError.
    """

    worlds: Worlds

    @abstractmethod
    def create(
        self,
        map_name: str = "",
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        record: bool = False,
    ) -> str:
        """Return the id of a new session (12 hexadecimal digits) at once; its world is built meanwhile.

        map_name: one of `worlds.maps`, "" for the first. record: keep the actions for `recording`. Raises SpecError
        (unknown map or option), Busy (too many sessions), ClosedError. An error while the world is built shows in
        `state`, and every later call raises it as SessionEnded.
        """

    def replay(self, recording: SessionRecording) -> str:
        """Return the id of a new session that replays a recorded one.

        It ignores actions and is over, with the result "replayed", where the recording ends. Raises what `create`
        raises.
        """
        raise self._unimplemented("recordings")

    def recording(self, session_id: str) -> SessionRecording:
        """Return what the session did since its last restart.

        Raises UnknownSession, LocalProtocolError (it is not recorded).
        """
        raise self._unimplemented("recordings")

    def ids(self) -> list[str]:
        """Return the ids of all sessions, oldest first."""
        raise self._unimplemented("a list of sessions")

    @abstractmethod
    def state(self, session_id: str) -> SessionStatus:
        """Return the session's status; never waits for its world. `phase` is a `Phase`. Raises UnknownSession."""

    @abstractmethod
    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Any] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
    ) -> AdvanceResult:
        """Advance the world by `ticks` (0: only observe it) and return the snapshot after that.

        Waits until the world is built. actions: messages of `worlds.action`, all taken before the first tick.
        interrupts: events that end the advance early, checked every `check_every` ticks. It also ends early when the
        world is over; a world that is over does no tick. A session that runs freely pauses meanwhile.

        Raises UnknownSession, SessionEnded, Busy ("all worker slots busy"), PeerTimeout, EngineFailed, ConfigError.
        """

    @abstractmethod
    def advance_all(self, requests: Sequence[AdvanceRequest], deadline: Deadline | None = None) -> list[AdvanceResult]:
        """Advance several sessions together and return their results in the order of the requests.

        Over a transport the calls are in flight at the same time. One deadline holds for all. A request that fails
        does not stop the others: when all have ended, the first error in the order of the requests is raised. More
        requests than worker slots are no reason for Busy: it means that other clients hold the slots.

        Raises ConfigError, before anything was done, when two requests name one session, and what `advance` raises.
        """

    @abstractmethod
    def act(self, session_id: str, actions: Sequence[Any]) -> int:
        """Queue actions for the next tick, whatever causes it, and return how many older ones they pushed out.

        At most 16 wait. Never waits. Raises UnknownSession, SessionEnded.
        """

    @abstractmethod
    def run(self, session_id: str, rate_hz: float | None) -> None:
        """Run the session freely at `rate_hz` ticks a second (0: as fast as it can), or stop it (None).

        Never waits: a session that is still being built starts when it is ready. It stops by itself when its world is
        over. Raises UnknownSession, ConfigError.
        """

    @abstractmethod
    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> WorldSnapshot:
        """Return the newest snapshot with more ticks than `after_tick`; waits while there is none.

        Raises UnknownSession, SessionEnded (also when the world is over and nothing newer can come), PeerTimeout.
        """

    @abstractmethod
    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> WorldSnapshot:
        """Start the world over with `seed` and return its first snapshot; the session goes on under its id.

        Raises UnknownSession, SessionEnded, Busy, PeerTimeout, EngineFailed.
        """

    @abstractmethod
    def destroy(self, session_id: str) -> None:
        """End a session. Idempotent: an unknown id is no error."""

    def _unimplemented(self, what: str) -> Unimplemented:
        return Unimplemented(f"{type(self).__name__} has no {what}", hint="use the engine's own sessions")


def check_distinct(requests: Iterable[AdvanceRequest]) -> None:
    """Raise ConfigError, with the id, when two requests name one session: their order would be open."""
    seen: set[str] = set()
    for request in requests:
        if request.session_id in seen:
            raise ConfigError(f"session {request.session_id!r} is in two requests", hint="send one, with more ticks")
        seen.add(request.session_id)


def nothing_newer(session_id: str, after_tick: int, deadline: Deadline) -> PeerTimeout:
    """Return the error of a reader whose deadline passed before a newer snapshot came."""
    return PeerTimeout(
        f"session {session_id} showed nothing after tick {after_tick} within {deadline.timeout_s:g} s",
        hint="advance it, or let it run",
    )
