"""OpenEnv's classes for one engine: its actions and observations, with the engine's own schema."""

from __future__ import annotations

from typing import Annotated, Any

from lucky_transport_openenv.episode import Episodes, View
from lucky_transport_openenv.runtime import Action, CallToolAction, ListToolsAction, Observation, pydantic

_TOOL_ACTIONS = {"list_tools": ListToolsAction, "call_tool": CallToolAction}


class EngineAction(Action):
    """An action of an episode. ticks: how many the step takes, where the engine has ticks."""

    action: Any = None
    ticks: int | None = None

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        """Return the action; OpenEnv's own two, by which its MCP client lists and calls tools, are taken as well."""
        kind = _TOOL_ACTIONS.get(obj.get("type", "")) if isinstance(obj, dict) else None
        return super().model_validate(obj, **options) if kind is None else kind.model_validate(obj)


class EngineObservation(Observation):
    """A view of an episode; done and reward are OpenEnv's own. See `lucky_transport_openenv.episode.View`."""

    observation: Any = None
    episode_id: str = ""
    terminated: bool = False
    truncated: bool = False
    ticks: int = 0
    ticks_passed: int = 0
    details: dict[str, Any] = pydantic.Field(default_factory=dict)


def action_class(episodes: Episodes) -> type[EngineAction]:
    """Return the class of actions on that engine."""
    schema = pydantic.WithJsonSchema(dict(episodes.action_schema))
    fields: dict[str, Any] = {"action": (Annotated[Any, schema], None if episodes.has_ticks else ...)}
    if episodes.has_ticks:
        fields["ticks"] = (int | None, pydantic.Field(default=None, ge=1, description="ticks that this step takes"))
    return pydantic.create_model(f"{episodes.engine.title()}Action", __base__=EngineAction, **fields)


def observation_class(episodes: Episodes) -> type[EngineObservation]:
    """Return the class of observations of that engine."""
    schema = pydantic.WithJsonSchema(dict(episodes.observation_schema))
    return pydantic.create_model(
        f"{episodes.engine.title()}Observation", __base__=EngineObservation, observation=(Annotated[Any, schema], None)
    )


def values_of(view: View, episode_id: str) -> dict[str, Any]:
    """Return a view as JSON values, for tools."""
    return {
        "observation": view.observation,
        "episode_id": episode_id,
        "reward": view.reward,
        "done": view.done,
        "terminated": view.terminated,
        "truncated": view.truncated,
        "ticks": view.ticks,
        "ticks_passed": view.ticks_passed,
        "details": dict(view.details),
    }


def observation_of(kind: type[EngineObservation], view: View, episode_id: str) -> EngineObservation:
    """Return a view as OpenEnv's observation."""
    return kind(**values_of(view, episode_id))
