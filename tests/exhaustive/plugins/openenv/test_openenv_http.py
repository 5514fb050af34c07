"""Episodes over plain HTTP, what the server tells about itself, and the examples of the page, from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

import httpx  # pyright: ignore[reportMissingImports]

from lucky_transport import api
from tests.plugins.openenv.conftest import url
from tests.support.waiting import PATIENCE_S

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "openenv.md"

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too


@pytest.fixture
def http(serve: Callable[..., Any]) -> Generator[httpx.Client]:
    with httpx.Client(base_url=url(serve("cartpole", capacity=1)), timeout=PATIENCE_S, trust_env=False) as client:
        yield client


def test_an_episode_goes_on_from_request_to_request(http: httpx.Client) -> None:
    begun = http.post("/reset", json={"seed": 4}).json()
    episode = begun["observation"]["episode_id"]
    for number in (1, 2):
        stepped = http.post("/step", json={"action": {"action": [{"move_right": True}]}, "episode_id": episode})
        assert stepped.status_code == 200, stepped.text
        assert stepped.json()["observation"]["ticks"] == number
    assert http.get("/state", params={"episode_id": episode}).json()["step_count"] == 2
    assert http.post("/reset", json={"seed": 4, "episode_id": episode}).json() == begun


def test_it_is_served_at_an_address_of_ipv6_too() -> None:
    with api.serve("toy", "openenv://[::1]:0") as serving:
        assert re.fullmatch(r"\[::1\]:\d+", serving.endpoints[0].address)
        assert httpx.get(f"{url(serving)}/health", trust_env=False).is_success


def test_a_client_may_name_its_episode(http: httpx.Client) -> None:
    assert http.post("/reset", json={"episode_id": "mine"}).json()["observation"]["episode_id"] == "mine"
    assert http.post("/step", json={"action": {}, "episode_id": "mine"}).status_code == 200


def test_the_status_is_that_of_the_error(http: httpx.Client) -> None:
    assert http.post("/step", json={"action": {}}).status_code == 404
    assert http.post("/reset", json={"seed": -1}).status_code == 400
    http.post("/reset", json={"episode_id": "mine"})
    full = http.post("/reset", json={"episode_id": "another"})
    assert (full.status_code, full.json()["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert "the only episode is in use" in full.json()["detail"]
    wrong = http.post("/step", json={"action": {"action": 3}, "episode_id": "mine"})
    assert (wrong.status_code, wrong.json()["status"]) == (400, "INVALID_ARGUMENT")
    assert http.post("/close", json={"episode_id": "mine"}).status_code == 200
    assert http.post("/reset", json={"episode_id": "another"}).status_code == 200


def test_the_schemas_and_the_metadata_are_the_engines_own(http: httpx.Client) -> None:
    schema = http.get("/schema").json()
    assert schema["action"]["properties"]["action"]["items"]["properties"] == {"move_right": {"type": "boolean"}}
    assert "pole_angle" in schema["observation"]["properties"]["observation"]["properties"]
    assert http.get("/metadata").json()["name"] == "cartpole"
    assert http.get("/health").json() == {"status": "healthy"}


def test_the_pages_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("{'result': ")
    assert printed[1:3] == ["1.0", "5"]
    assert "scene_get_info" in printed[3] or "act" in printed[3]
