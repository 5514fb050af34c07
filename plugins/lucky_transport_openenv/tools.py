"""What an agent may call, as MCP tools: the engine's typed methods, and playing an episode.

A typed method is the tool `service_method` ("scene_get_scene_info"), with the fields of its request as arguments. Its
side effects are in the tool's annotations, and in words in its description: not every agent reads annotations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.host.host import Host
from lucky_transport.messages.methods import METHODS, Effect, Method
from lucky_transport_openenv.episode import Episodes
from lucky_transport_openenv.errors import EpisodeError, refused
from lucky_transport_openenv.messages import message_of, plain_of, schema_of
from lucky_transport_openenv.models import values_of
from lucky_transport_openenv.options import ServerOptions
from lucky_transport_openenv.runtime import Tool, ToolAnnotations, ToolError, ToolResult, pydantic

#: What episodes do themselves: a call beside them would change what another agent plays.
_OF_EPISODES = ("/lucky_transport.v1.BatchService/", "/lucky_transport.v1.SessionService/")
_OF_AGENTS = frozenset(f"/hazel.rpc.AgentService/{name}" for name in ("Step", "ResetAgent", "ReportProgress"))

#: MCP's annotations of a tool that changes nothing.
READS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_CHANGES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
_STARTS: Mapping[str, Any] = {
    "seed": {"type": "integer", "minimum": 0, "description": "equal seeds begin alike"},
    "map_name": {"type": "string", "description": "one of the engine's maps"},
    "options": {"type": "object", "description": "options of the world"},
}
_TICKS = {"ticks": {"type": "integer", "minimum": 1, "description": "ticks that this step takes"}}
_ID = {"episode_id": {"type": "string", "description": "what start_episode returned"}}

_EFFECTS: Mapping[Effect, tuple[str, dict[str, bool]]] = {
    Effect.READ: ("Changes nothing.", READS),
    Effect.VIEW: ("Changes what is shown of the simulation, not its course.", _CHANGES),
    Effect.WORLD: (
        "Changes the course of the simulation, for every agent of this engine.",
        _CHANGES | {"destructiveHint": True},
    ),
}


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool: `call` takes its arguments, JSON values as `schema` has them, and returns JSON values.

    It runs on a thread of its own and raises EpisodeError. hints: MCP's annotations.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, bool]
    call: Callable[[dict[str, Any]], dict[str, Any]]


class EngineTool(Tool):
    """A `ToolInfo` as FastMCP has tools."""

    _call: Any = pydantic.PrivateAttr()

    @classmethod
    def of(cls, info: ToolInfo) -> EngineTool:
        """Return the tool."""
        tool = cls(
            name=info.name,
            description=info.description,
            parameters=dict(info.schema),
            annotations=ToolAnnotations(**info.hints),
        )
        tool._call = info.call
        return tool

    async def run(self, arguments: dict[str, Any]) -> Any:
        """Return the result; what went wrong is a ToolError, which the agent reads."""
        try:
            found = await asyncio.to_thread(self._call, arguments)
        except EpisodeError as error:
            raise ToolError(str(error)) from error
        return ToolResult(structured_content=found)


def add_tools(server: Any, tools: Iterable[ToolInfo]) -> None:
    """Let the agents of `server`, a FastMCP, call these tools."""
    for info in tools:
        server.add_tool(EngineTool.of(info))


def method_tools(host: Host, options: ServerOptions) -> list[ToolInfo]:
    """Return the tools of the unary methods that the engine answers, as far as the options say."""
    if options.tools == "none":
        return []
    return [
        _tool_of(host, row, options.longest_s)
        for row in METHODS
        if row.stream is None
        and host.implements(row)
        and not row.name.startswith(_OF_EPISODES)
        and row.name not in _OF_AGENTS
        and (options.tools == "all" or row.effect is Effect.READ)
    ]


def _tool_of(host: Host, row: Method, longest_s: float) -> ToolInfo:
    text, hints = _EFFECTS[row.effect]

    def call(arguments: dict[str, Any]) -> dict[str, Any]:
        with refused(host.spec.engine, row.name):
            request = message_of(row.request, arguments)
            under_way = Call("agents over openenv", Deadline(longest_s), between_steps=host.between_steps)
            try:
                return plain_of(host.call(row, request, under_way))
            finally:
                under_way.end()

    schema = schema_of(row.request)
    about = schema.pop("description", "")
    description = " ".join(filter(None, (f"{row.service}.{row.short_name}.", about, text)))
    return ToolInfo(f"{row.python_service}_{row.python_name}", description, schema, hints, call)


def play_tools(table: Any, episodes: Episodes, *, by_id: bool = False) -> list[ToolInfo]:
    """Return the tools by which an agent plays: start_episode, act, observe, end_episode.

    OpenEnv keeps the names reset, step, state and close for itself. table: finds the environment that a call means, by
    `start`, `find` and `end`. by_id: a client has many episodes, and each call names one.
    """
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
