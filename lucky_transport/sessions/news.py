"""What is told of a session: its state, a look at its world, and the outcome of an advance.

Rule 1: these are plain values; the worlds they speak of may have gone on since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout
from lucky_transport.sessions.phase import Phase

__all__ = ["Advanced", "SessionState", "Snapshot", "nothing_newer"]


@dataclass(frozen=True, slots=True)
class SessionState:
    """Where a session stands. ticks, is_over, result, score: its world's (see `Standing`), as of now.

    error: why it failed, "" unless it did. dropped: actions that newer ones pushed out of the queue. rate_hz: None when
    it does not run freely, 0 when it runs as fast as it can.
    """

    session_id: str
    map_name: str
    phase: Phase
    ticks: int = 0
    is_over: bool = False
    result: str = ""
    score: float = 0.0
    error: str = ""
    dropped: int = 0
    rate_hz: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world as it was at tick `ticks`. observation: a message of `Worlds.observation`, nobody's but the reader's."""

    observation: Any
    ticks: int
    is_over: bool
    result: str
    score: float


@dataclass(frozen=True, slots=True)
class Advanced(Snapshot):
    """A snapshot after an advance. ticks_done: how many ticks that took. interrupt: the event that ended it early, ""
    when none did.
    """

    ticks_done: int = 0
    interrupt: str = ""


def nothing_newer(session_id: str, after_tick: int, deadline: Deadline) -> PeerTimeout:
    """Return the error, the same behind every door, of a reader who waited in vain."""
    return PeerTimeout(
        f"session {session_id} showed nothing after tick {after_tick} within {deadline.timeout_s:g} s",
        hint="advance it, or let it run",
    )
