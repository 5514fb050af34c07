"""One session's part of an advance of several together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Turn", "check_turns"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one session is to do; the fields are those of `Sessions.advance`."""

    session_id: str
    ticks: int = 1
    actions: Sequence[Any] = ()
    interrupts: Collection[str] = ()
    check_every: int = 1


def check_turns(turns: Iterable[Turn]) -> None:
    """Raise ValueError, with the id, when a session has more than one turn: which came first would be open."""
    seen: set[str] = set()
    for turn in turns:
        if turn.session_id in seen:
            raise ValueError(f"session {turn.session_id!r} has two turns: advance it once at a time, by more ticks")
        seen.add(turn.session_id)
