"""OpenRA-RL's own client, from the package index and in an interpreter of its own, plays against our server.

Set LUCKY_PEER_OPENRA to a Python that has it: python -m venv peer && peer/bin/pip install openra_rl==0.4.1
It is GPL-3: it runs in a process of its own and is never imported here.
"""

import json
import os
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

from lucky_transport.serving import Serving
from tests.plugins.openra.conftest import Serve
from tests.support.command import execute, stdout_of

PYTHON = os.environ.get("LUCKY_PEER_OPENRA", "")
PROGRAM = Path(__file__).parents[3] / "plugins" / "openra" / "peer_program.py"


@pytest.fixture
def peer() -> Callable[[Serving], dict[str, Any]]:
    """Let the real client play a game against what is served, and return what it says of it."""
    if not PYTHON:
        pytest.skip("LUCKY_PEER_OPENRA names no Python with the original client; see the top of this file")

    def play(serving: Serving) -> dict[str, Any]:
        port = serving.endpoints[0].address.rpartition(":")[2]
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTHON"))}
        return json.loads(stdout_of(execute(PYTHON, PROGRAM, port, env=environ, timeout=400)))

    return play


def _check(said: dict[str, Any]) -> None:
    assert said["is_ready"]
    assert said["is_idempotent"]
    assert said["factions"] == ["player", "opponent"]
    assert said["first_tick"] == 0
    assert said["is_rising"]
    assert said["built"] == ["barracks", "base", "power", "refinery"]
    assert said["phase"] == "playing"
    assert said["waited"] >= 5
    assert (said["done"], said["result"]) == (True, "lose")
    assert said["map"]["map_name"] == "arena"


def test_it_plays_a_whole_game(serve: Serve, peer: Callable[[Serving], dict[str, Any]]) -> None:
    serving = serve(rate=400)
    _check(peer(serving))
    sessions = serving.host.sessions
    assert sessions is not None
    assert sessions.ids() == []


def test_several_of_them_play_games_of_their_own(serve: Serve, peer: Callable[[Serving], dict[str, Any]]) -> None:
    serving = serve(rate=200)
    with ThreadPoolExecutor(3) as pool:
        for said in pool.map(peer, [serving] * 3):
            _check(said)


def test_the_map_and_the_opponents_that_it_names_are_played(
    serve: Serve, stub: Any, peer: Callable[[Serving], dict[str, Any]]
) -> None:
    serving = serve(rate=400)
    said = peer(serving)
    assert {"normal", "rush", "hard", "brutal"} <= set(said["opponents"])
    client = stub(serving)
    for opponent in said["opponents"]:
        session_id = client.ready(map_name=said["map_name"], bots=f"Multi1:rl-agent,Multi0:{opponent}")
        assert client.call("FastAdvance", session_id=session_id, ticks=3).tick == 3


def test_the_pages_program_runs_as_pasted(serve: Serve) -> None:
    if not PYTHON:
        pytest.skip("LUCKY_PEER_OPENRA names no Python with the original client; see the top of this file")
    import lucky_transport_openra

    page = Path(lucky_transport_openra.__file__).with_name("README.md").read_text(encoding="utf-8")
    block = page.partition("(`pip install openra_rl==0.4.1`):\n\n")[2].partition("\nThe newer generation")[0]
    port = serve(rate=400).endpoints[0].address.rpartition(":")[2]
    program = textwrap.dedent(block).replace("9999", port)
    assert stdout_of(execute(PYTHON, "-c", program, timeout=400)).endswith("['base']\n")
