"""MCP clients call the engine's typed methods as tools, and play; so do the clients of openenv-core 0.3.0."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

from lucky_transport.client import Client as TypedClient
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages.methods import METHODS, Effect
from lucky_transport_openenv.app import EpisodeServer
from tests.plugins.openenv.conftest import over_http, url
from tests.support.command import execute, stdout_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too

Serve = Callable[..., Any]


def test_an_mcp_client_plays_an_episode(serve: Serve) -> None:
    async def play(client: Any) -> Any:
        begun = (await client.call_tool("start_episode", {"seed": 7})).structured_content
        named = {"episode_id": begun["episode_id"]}
        seen, gained = begun, 0.0
        while not seen["done"]:
            seen = (await client.call_tool("act", {**named, "action": [{"move_right": True}]})).structured_content
            gained += seen["reward"]
        assert (await client.call_tool("observe", named)).structured_content["ticks"] == seen["ticks"]
        await client.call_tool("end_episode", named)
        return seen, gained

    serving = serve("cartpole")
    seen, gained = over_http(serving, play)
    assert seen["details"] == {"result": "fell", "score": gained}
    assert serving.host.sessions.ids() == []


def test_two_episodes_of_one_mcp_client_are_told_apart_and_a_third_is_refused(serve: Serve) -> None:
    async def play(client: Any) -> Any:
        ids = [(await client.call_tool("start_episode", {})).structured_content["episode_id"] for _ in range(2)]
        await client.call_tool("act", {"episode_id": ids[0], "ticks": 5})
        ticks = [(await client.call_tool("observe", {"episode_id": one})).structured_content["ticks"] for one in ids]
        third = await client.call_tool("start_episode", {}, raise_on_error=False)
        return ticks, third

    ticks, third = over_http(serve("cartpole", capacity=2), play)
    assert ticks == [5, 0]
    assert third.is_error
    assert "RESOURCE_EXHAUSTED: all 2 episodes are in use" in third.content[0].text


def test_tools_find_episodes_on_the_event_loop_that_begins_and_ends_them(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: set[str] = set()
    touch = EpisodeServer._update_session_activity

    def look(server: Any, *arguments: Any, **named: Any) -> None:
        touched.add(threading.current_thread().name)
        touch(server, *arguments, **named)

    async def play(client: Any) -> None:
        begun = (await client.call_tool("start_episode", {"seed": 7})).structured_content
        await client.call_tool("observe", {"episode_id": begun["episode_id"]})

    monkeypatch.setattr(EpisodeServer, "_update_session_activity", look)
    over_http(serve("cartpole"), play)
    assert touched == {"lucky-openenv"}


def test_the_engines_methods_are_tools_with_their_fields_and_effects(serve: Serve) -> None:
    async def listed(client: Any) -> Any:
        return {tool.name: tool for tool in await client.list_tools()}

    serving = serve("toy", 2)
    tools = over_http(serving, listed)
    rows = {f"{row.python_service}_{row.python_name}": row for row in METHODS}
    of_methods = {name: tool for name, tool in tools.items() if name in rows}
    assert {rows[name].effect for name in of_methods} >= {Effect.READ, Effect.WORLD}
    for name, tool in of_methods.items():
        dumped = tool.model_dump(by_alias=True)["annotations"]
        assert dumped["readOnlyHint"] == (rows[name].effect is Effect.READ), name
        assert dumped["destructiveHint"] == (rows[name].effect is Effect.WORLD), name
    assert "scene_get_scene_info" in tools, "docs/how-to/openenv.md names it"
    schema = tools["agent_get_agent_schema"].model_dump(by_alias=True)["inputSchema"]
    assert schema["properties"] == {"agent_name": {"type": "string"}}
    assert "session_create_session" not in tools
    assert "agent_step" not in tools


def test_a_tool_answers_what_the_typed_call_answers(serve: Serve) -> None:
    async def called(client: Any) -> Any:
        result = await client.call_tool("agent_get_agent_schema", {"agent_name": "agent_1"})
        wrong = await client.call_tool("agent_get_agent_schema", {"agent": 1}, raise_on_error=False)
        return result.structured_content, wrong

    serving = serve("toy", 2)
    found, wrong = over_http(serving, called)
    with InprocTransport(serving.host) as transport:
        expected = TypedClient(transport).agent.get_agent_schema("agent_1").schema
    assert expected is not None
    assert found["schema"]["agent_name"] == expected.agent_name == "agent_1"
    assert found["schema"]["action_size"] == expected.action_size
    assert wrong.is_error
    assert "INVALID_ARGUMENT: GetAgentSchemaRequest: no field 'agent'" in wrong.content[0].text


@pytest.mark.parametrize(("tools", "effects"), [("read", {Effect.READ}), ("none", set())])
def test_the_endpoint_says_which_methods_agents_get(serve: Serve, tools: str, effects: set[Effect]) -> None:
    async def names(client: Any) -> Any:
        return [tool.name for tool in await client.list_tools()]

    found = over_http(serve("toy", tools=tools), names)
    rows = {f"{row.python_service}_{row.python_name}": row for row in METHODS}
    assert {rows[name].effect for name in found if name in rows} == effects
    assert "act" in found


PEER = os.environ.get("LUCKY_PEER_OPENENV_CORE", "")
PROGRAM = Path(__file__).parents[3] / "plugins" / "openenv" / "openenv_program.py"
#: A distribution that claims to have installed the module `openenv`.
OTHER = {"METADATA": "Metadata-Version: 2.1\nName: openenv-other\nVersion: 0.3.0\n", "top_level.txt": "openenv\n"}


@pytest.mark.parametrize("python", [sys.executable, PEER], ids=["own", "openenv-core"])
def test_its_clients_play_an_episode_and_call_tools(serve: Callable[..., Any], python: str) -> None:
    if not python:
        make = "python -m venv peer && peer/bin/pip install openenv-core==0.3.0"
        pytest.skip(f"LUCKY_PEER_OPENENV_CORE names no Python with openenv-core: {make}")
    serving = serve("cartpole")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTHON"))}
    # in a new environment the import of openenv-core alone takes half a minute of CPU
    printed = stdout_of(execute(python, "-W", "ignore", PROGRAM, url(serving), env=environ, timeout=480))
    said = json.loads(printed.splitlines()[-1])
    assert said["package"].startswith("openenv-core 0.3" if python == PEER else "openenv")
    assert said["details"] == {"result": "fell", "score": said["gained"]}
    assert {"start_episode", "act"} <= set(said["names"])
    assert "'ticks': 5" in said["seen"]


def test_two_packages_of_one_module_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "openenv_other-0.3.0.dist-info").mkdir()
    for name, text in OTHER.items():
        (tmp_path / "openenv_other-0.3.0.dist-info" / name).write_text(text)
    command = [sys.executable, "-m", "lucky_transport", "serve", "cartpole", "--endpoint", "openenv://127.0.0.1:0"]
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0
    assert "openenv-other both install the module openenv" in ended.stderr
    assert "pip uninstall openenv" in ended.stderr
