"""How one game is played over the bridge, one class per generation: by calls that advance it, or by its stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress

from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.sessions.api import AdvanceResult, WorldSnapshot
from lucky_transport_openra.bridge_sessions import BridgeSessions
from lucky_transport_openra.skirmish.messages import Orders


class Play(ABC):
    """One game."""

    @abstractmethod
    def begin(self) -> WorldSnapshot:
        """Return the first look at the game."""

    @abstractmethod
    def step(self, actions: Sequence[Orders], ticks: int, interrupts: Collection[str]) -> AdvanceResult:
        """Give orders, go on by `ticks` and return what is to be seen then."""

    @abstractmethod
    def end(self) -> None:
        """End the game; an engine that has gone is no error."""


class UnaryPlay(Play):
    """A session of the newer generation, which stands still between the calls that advance it."""

    def __init__(self, sessions: BridgeSessions, session_id: str) -> None:
        self._sessions = sessions
        self._id = session_id

    def begin(self) -> WorldSnapshot:
        return self._sessions.advance(self._id, 1)

    def step(self, actions: Sequence[Orders], ticks: int, interrupts: Collection[str]) -> AdvanceResult:
        return self._sessions.advance(self._id, ticks, actions, interrupts)

    def end(self) -> None:
        with suppress(TransportError):
            self._sessions.destroy(self._id)


class StreamedPlay(Play):
    """The engine's one game, which goes on by itself; interrupts are not looked for."""

    def __init__(self, sessions: BridgeSessions, timeout_s: float) -> None:
        self._sessions = sessions
        self._timeout_s = timeout_s
        self._ticks = -1

    def begin(self) -> WorldSnapshot:
        self._sessions.run("", 0.0)
        seen = self._sessions.latest("", -1, Deadline(self._timeout_s))
        self._ticks = seen.ticks
        return seen

    def step(self, actions: Sequence[Orders], ticks: int, interrupts: Collection[str]) -> AdvanceResult:
        self._sessions.act("", actions or [Orders()])
        start, deadline = self._ticks, Deadline(self._timeout_s)
        seen = self._sessions.latest("", start, deadline)
        while seen.ticks < start + ticks and not seen.is_over:
            seen = self._sessions.latest("", seen.ticks, deadline)
        self._ticks = seen.ticks
        return AdvanceResult(seen.observation, seen.ticks, seen.is_over, seen.result, seen.score, seen.ticks - start)

    def end(self) -> None:
        self._sessions.run("", None)
