"""The tools by which an agent plays an episode: start_episode, act, observe, end_episode.

OpenEnv keeps the names reset, step, state and close for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lucky_transport_openenv.episode import Episodes, View
from lucky_transport_openenv.models import values_of
from lucky_transport_openenv.tools import READS, ToolInfo

_CHANGES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
_STARTS: Mapping[str, Any] = {
    "seed": {"type": "integer", "minimum": 0, "description": "equal seeds begin alike"},
    "map_name": {"type": "string", "description": "one of the engine's maps"},
    "options": {"type": "object", "description": "options of the world"},
}
_TICKS = {"ticks": {"type": "integer", "minimum": 1, "description": "ticks that this step takes"}}
_ID = {"episode_id": {"type": "string", "description": "what start_episode returned"}}


class Played(Protocol):
    """An environment with its episode."""

    @property
    def episode_id(self) -> str: ...

    def act(self, action: Any, ticks: int | None) -> View: ...

    def observe(self) -> View: ...


class Table(Protocol):
    """Where tools find the environment that a call means."""

    def start(self, **arguments: Any) -> tuple[Played, View]:
        """Return the environment of a new episode and its first view. Raises EpisodeError when there is no place."""
        ...

    def find(self, episode_id: str) -> Played:
        """Return the environment of that episode. Raises EpisodeError for an unknown one."""
        ...

    def end(self, episode_id: str) -> None:
        """End that episode."""
        ...


def play_tools(table: Table, episodes: Episodes, *, by_id: bool = False) -> list[ToolInfo]:
    """Return the tools. by_id: a client has many episodes, and each call names one."""
    which = _ID if by_id else {}

    def schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
        needed = {"required": [*which, *required]} if which or required else {}
        return {"type": "object", "properties": {**which, **properties}, **needed, "additionalProperties": False}

    def start(arguments: dict[str, Any]) -> dict[str, Any]:
        environment, view = table.start(**arguments)
        return values_of(view, environment.episode_id)

    def act(arguments: dict[str, Any]) -> dict[str, Any]:
        environment = table.find(arguments.get("episode_id", ""))
        return values_of(environment.act(arguments.get("action"), arguments.get("ticks")), environment.episode_id)

    def observe(arguments: dict[str, Any]) -> dict[str, Any]:
        environment = table.find(arguments.get("episode_id", ""))
        return values_of(environment.observe(), environment.episode_id)

    def end(arguments: dict[str, Any]) -> dict[str, Any]:
        table.end(arguments.get("episode_id", ""))
        return {"ended": True}

    starts = {name: one for name, one in _STARTS.items() if episodes.has_ticks or name != "map_name"}
    start_schema = {"type": "object", "properties": starts, "additionalProperties": False}
    acting = {"action": dict(episodes.action_schema), **(_TICKS if episodes.has_ticks else {})}
    acting_schema = schema(acting) if episodes.has_ticks else schema(acting, "action")
    return [
        ToolInfo("start_episode", "Start a new episode and see how it begins.", start_schema, _CHANGES, start),
        ToolInfo("act", "Take an action in the episode, and see what came of it.", acting_schema, _CHANGES, act),
        ToolInfo("observe", "See how the episode stands, without an action.", schema({}), READS, observe),
        ToolInfo("end_episode", "End the episode and free its place.", schema({}), _CHANGES, end),
    ]
