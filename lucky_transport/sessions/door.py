"""What can be done with the sessions of an engine, from wherever: in its process (`Sessions`), over a transport
(`SessionClient`), or over the protocol of another system.

Rule 1: what each of these does and raises is the same behind every door; `Sessions` says it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.sessions.news import Advanced, SessionState, Snapshot
from lucky_transport.sessions.turn import Turn
from lucky_transport.world import Worlds

__all__ = ["SessionDoor"]


class SessionDoor(Protocol):
    """See `Sessions`. worlds: whose actions and observations they are."""

    worlds: Worlds

    def create(self, map_name: str = "", seed: int | None = None, options: Mapping[str, Any] | None = None) -> str: ...

    def state(self, session_id: str) -> SessionState: ...

    def advance(
        self,
        session_id: str,
        ticks: int = 1,
        actions: Sequence[Any] = (),
        interrupts: Collection[str] = (),
        deadline: Deadline | None = None,
    ) -> Advanced: ...

    def advance_all(self, turns: Sequence[Turn], deadline: Deadline | None = None) -> list[Advanced]: ...

    def act(self, session_id: str, actions: Sequence[Any]) -> int: ...

    def run(self, session_id: str, rate_hz: float | None) -> None: ...

    def latest(self, session_id: str, after_tick: int = -1, deadline: Deadline | None = None) -> Snapshot: ...

    def restart(self, session_id: str, seed: int | None = None, deadline: Deadline | None = None) -> Snapshot: ...

    def destroy(self, session_id: str) -> None: ...
