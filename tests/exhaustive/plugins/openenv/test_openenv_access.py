"""Who may talk to the server, how long a request may be, to whom an episode belongs, and the examples of the page."""

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

import httpx  # pyright: ignore[reportMissingImports]
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus  # pyright: ignore[reportMissingImports]
from websockets.sync.client import connect  # pyright: ignore[reportMissingImports]

from lucky_transport import api
from lucky_transport.cli.serve import serve as command
from lucky_transport.errors import ConfigError
from tests.plugins.openenv.conftest import over_http, url
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.filterwarnings("ignore")  # of foreign packages, in the server's own threads too

Serve = Callable[..., Any]
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "openenv.md"
TOKEN = "a token of 26 characters.."
ROUTES = (
    ("GET", "/health"),
    ("GET", "/schema"),
    ("GET", "/state"),
    ("GET", "/docs"),
    ("POST", "/reset"),
    ("POST", "/step"),
    ("POST", "/close"),
    ("POST", "/mcp"),
    ("POST", "/mcp/http"),
    ("GET", "/nowhere"),
)
SOCKETS = ("/ws", "/mcp")


def http(serving: Any, **headers: str) -> httpx.Client:
    """Return a client with one connection of its own."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
    return httpx.Client(base_url=url(serving), timeout=PATIENCE_S, trust_env=False, headers=headers, limits=limits)


def refusals(serving: Any, **headers: str) -> Iterator[tuple[int, str]]:
    """Yield status and text of what each route answers, WebSockets too."""
    with http(serving, **headers) as client:
        for method, path in ROUTES:
            answer = client.request(method, path)
            yield answer.status_code, answer.text
    address = serving.endpoints[0].address
    for path in SOCKETS:
        with pytest.raises(InvalidStatus) as refused, connect(f"ws://{address}{path}", additional_headers=headers):
            pass
        yield refused.value.response.status_code, (refused.value.response.body or b"").decode()


def health(serving: Any, **headers: str) -> int:
    """Return the status with which a client with these headers is answered."""
    with http(serving, **headers) as client:
        return client.get("/health").status_code


def check_answered(serving: Any, **headers: str) -> None:
    """A client with these headers plays, over HTTP and over a WebSocket."""
    assert health(serving, **headers) == 200
    with connect(f"ws://{serving.endpoints[0].address}/ws", additional_headers=headers) as ws:
        ws.send(json.dumps({"type": "reset", "data": {}}))
        assert json.loads(ws.recv(PATIENCE_S))["type"] == "observation"


def raw(serving: Any, *lines: str) -> str:
    """Return the answer to a request of these lines, word for word."""
    host, _, port = serving.endpoints[0].address.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with connection.makefile("rb") as answer:
            return answer.readline().decode()


# Host and Origin


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil.example", "10.0.0.1", "0.0.0.0"]
)
def test_another_hosts_name_is_refused_on_every_route(serve: Serve, host: str) -> None:
    serving = serve("cartpole")
    with http(serving, host=host) as client:
        for method, path in ROUTES:
            answer = client.request(method, path)
            assert answer.status_code == 403, path
            assert f"PERMISSION_DENIED: Host '{host}' is not allowed; serve with --allow-host NAME" in answer.text
    name, _, port = serving.endpoints[0].address.rpartition(":")
    for path in SOCKETS:
        with (
            closing(socket.create_connection((name, int(port)))) as connection,
            pytest.raises(InvalidStatus) as refused,
            connect(f"ws://{host.rpartition('@')[2]}:{port}{path}", sock=connection),
        ):
            pass
        assert refused.value.response.status_code == 403
    assert serving.host.sessions.ids() == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.9:80", "[::1]", "[::1]:8000", "localhost."]
)
def test_the_loopbacks_names_are_answered(serve: Serve, host: str) -> None:
    assert health(serve("cartpole"), host=host) == 200


def test_no_host_and_two_hosts_are_refused(serve: Serve) -> None:
    serving = serve("cartpole")
    assert " 403 " in raw(serving, "GET /health HTTP/1.0")
    assert " 4" in raw(serving, "GET /health HTTP/1.1", "Host: localhost", "Host: evil.example")
    assert " 403 " in raw(serving, "GET /health HTTP/1.1", "Host: evil.example", "X-Forwarded-Host: localhost")


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "null",
        "file://",
        "extension://localhost",
        "http://10.0.0.1",
        "localhost",
    ],
)
def test_a_page_of_another_origin_is_refused_on_every_route(serve: Serve, origin: str) -> None:
    serving = serve("cartpole")
    for status, text in refusals(serving, origin=origin):
        assert status == 403
        assert f"PERMISSION_DENIED: Origin '{origin}' is not allowed; serve with --allow-origin ORIGIN" in text
    assert serving.host.sessions.ids() == []


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"])
def test_a_page_of_this_machine_is_answered(serve: Serve, origin: str) -> None:
    check_answered(serve("cartpole"), origin=origin)


def test_the_user_allows_further_hosts_and_origins() -> None:
    allowed: dict[str, Any] = {
        "allow_host": ["Robot.example"],
        "allow_origin": "https://app.example http://other.example",
    }
    with api.serve("cartpole", "openenv://127.0.0.1:0", **allowed) as serving:
        for headers in (
            {"host": "robot.example:80"},
            {"host": "localhost", "origin": "https://app.example"},
            {"host": "robot.example", "origin": "https://robot.example"},  # a page of the server's own
        ):
            assert health(serving, **headers) == 200
        assert health(serving, host="robot.example", origin="https://evil.example") == 403


def test_a_server_at_every_address_answers_to_the_loopbacks_names_only() -> None:
    with api.serve("cartpole", "openenv://0.0.0.0:0") as serving:
        assert [health(serving, host=host) for host in ("127.0.0.1", "0.0.0.0", "10.0.0.1")] == [200, 403, 403]


def test_the_command_line_allows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def serve(*_: Any, **settings: Any) -> Any:
        seen.update(settings)
        raise ConfigError("enough")

    monkeypatch.setattr(api, "serve", serve)
    arguments = "cartpole --endpoint openenv://127.0.0.1:0 --allow-host a --allow-host b --allow-origin https://c"
    CliRunner().invoke(command, arguments.split())
    assert (seen["allow_host"], seen["allow_origin"]) == (("a", "b"), ("https://c",))


# the token


@pytest.mark.parametrize("said", ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} x", "Bearer"])
def test_without_the_servers_token_every_route_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("LUCKY_OPENENV_TOKEN", TOKEN)
    serving = serve("cartpole")
    for status, text in refusals(serving, **({"authorization": said} if said else {})):
        assert (status, TOKEN in text) == (401, False)
    assert serving.host.sessions.ids() == []


def test_clients_with_the_token_play(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_OPENENV_TOKEN", f"{TOKEN}\n")
    serving = serve("cartpole")
    for scheme in ("bearer", "Bearer"):
        check_answered(serving, authorization=f"{scheme} {TOKEN}")

    async def play(client: Any) -> Any:
        return (await client.call_tool("start_episode", {})).structured_content["ticks"]

    assert over_http(serving, play, TOKEN) == 0


def test_a_blank_token_is_refused_before_anything_is_served(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_OPENENV_TOKEN", " ")
    with pytest.raises(ConfigError, match="LUCKY_OPENENV_TOKEN is blank"):
        serve("cartpole")


# lengths


def test_a_request_that_is_too_long_is_refused_however_it_comes(serve: Serve) -> None:
    serving = serve("cartpole", max_bytes=2000)
    long = json.dumps({"seed": 1, "options": {"x": "x" * 2000}}).encode()
    with http(serving) as client:
        for path in ("/mcp", "/mcp/http", "/nowhere"):
            for content in (long, iter([long[:1500], long[1500:]])):
                answer = client.post(path, content=content, headers={"content-type": "application/json"})
                assert answer.status_code == 413, path
                assert "longer than 2000 bytes" in answer.text
        assert client.post("/mcp", json={}).status_code == 200
    with connect(f"ws://{serving.endpoints[0].address}/ws") as ws:
        ws.send(long.decode())
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_sixteen_mebibytes_are_the_default(serve: Serve) -> None:
    with http(serve("cartpole")) as client:
        assert client.post("/mcp", content=b" " * (16 << 20)).status_code != 413
        assert client.post("/mcp", content=b" " * ((16 << 20) + 1)).status_code == 413


# episodes belong to who began them


def test_an_episode_with_a_token_goes_on_from_any_connection(serve: Serve) -> None:
    async def play(one: Any, same: Any, other: Any) -> Any:
        named = {"episode_id": (await one.call_tool("start_episode", {})).structured_content["episode_id"]}
        return [await client.call_tool("observe", named, raise_on_error=False) for client in (same, other)]

    own, foreign = over_http(serve("cartpole"), play, "of my own", "of my own", "of another")
    assert (own.is_error, foreign.is_error) == (False, True)
    assert "of this connection, or of its bearer token" in foreign.content[0].text


def test_openenvs_own_routes_do_not_find_an_episode_by_its_id(serve: Serve) -> None:
    serving = serve("cartpole")

    async def play(one: Any) -> Any:
        episode = (await one.call_tool("start_episode", {})).structured_content["episode_id"]
        await asyncio.to_thread(try_to_act, episode)
        return (await one.call_tool("observe", {"episode_id": episode})).structured_content["ticks"]

    def try_to_act(episode: str) -> None:
        call = {"name": "act", "arguments": {"action": []}, "session_id": episode}
        with http(serving) as two:
            answer = two.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).json()
            assert "ticks" not in json.dumps(answer)
            closing = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": episode}}
            assert "error" in {key for key, value in two.post("/mcp", json=closing).json().items() if value}
        with connect(f"ws://{serving.endpoints[0].address}/ws?session_id={episode}") as ws:
            with suppress(ConnectionClosed):
                ws.send(json.dumps({"type": "step", "data": {"action": []}}))
            assert json.loads(ws.recv(PATIENCE_S))["type"] == "error"

    assert over_http(serving, play) == 0


def test_an_mcp_client_does_not_find_anothers_episode(serve: Serve) -> None:
    async def play(one: Any, two: Any) -> Any:
        named = {"episode_id": (await one.call_tool("start_episode", {})).structured_content["episode_id"]}
        tried = [(two, tool) for tool in ("act", "observe", "end_episode")] + [(one, "act")]
        return [await client.call_tool(tool, named, raise_on_error=False) for client, tool in tried]

    *foreign, own = over_http(serve("cartpole"), play, None, None)
    assert [one.is_error for one in foreign] == [True] * 3
    assert all("NOT_FOUND: no episode" in one.content[0].text for one in foreign)
    assert not own.is_error


def test_openenvs_tool_client_keeps_its_session_over_http_and_websocket(serve: Serve) -> None:
    from openenv.core.mcp_client import MCPToolClient  # pyright: ignore[reportMissingImports]

    serving = serve("cartpole")

    async def played() -> Any:
        client = MCPToolClient(url(serving))
        client.use_production_mode = True
        async with client:
            await client.call_tool("start_episode", seed=7)
            return await client.call_tool("act", action=[], ticks=5)

    assert "5" in json.dumps(asyncio.run(played()), default=str)
    assert serving.host.sessions.ids() == []


# what the server tells about itself, and the page


def test_it_is_served_at_an_address_of_ipv6_too() -> None:
    with api.serve("toy", "openenv://[::1]:0") as serving:
        assert re.fullmatch(r"\[::1\]:\d+", serving.endpoints[0].address)
        assert httpx.get(f"{url(serving)}/health", trust_env=False).is_success


def test_the_schemas_and_the_metadata_are_the_engines_own(serve: Serve) -> None:
    with http(serve("cartpole")) as client:
        told = {name: client.get(f"/{name}").json() for name in ("schema", "metadata", "health")}
        assert [client.post(path, json={}).status_code for path in ("/reset", "/step")] == [404, 404]
    schema = told["schema"]
    assert schema["action"]["properties"]["action"]["items"]["properties"] == {"move_right": {"type": "boolean"}}
    assert "pole_angle" in schema["observation"]["properties"]["observation"]["properties"]
    assert told["metadata"]["name"] == "cartpole"
    assert told["health"] == {"status": "healthy"}


def test_the_pages_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("{'result': ")
    assert printed[1] == "5"
    assert "act" in printed[2]
