"""Where a channel goes: the three modes, and what is said about it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lucky_transport
import lucky_transport_stubs
from lucky_transport.config import Settings
from lucky_transport.errors import ConfigError
from lucky_transport.process import unique_name
from lucky_transport.registry import Registry
from lucky_transport.shm.listener import connecting
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport_stubs.run.switch import Route, Switch, target_map
from lucky_transport_stubs.staged import router
from tests.support.waiting import PATIENCE_S

TARGET = "127.0.0.1:50051"


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, without who says them."""
    return [line.partition(": ")[2].partition(": ")[2] for line in capfd.readouterr().err.splitlines()]


def test_shm_switches_what_the_map_names_without_asking(capfd: pytest.CaptureFixture[str]) -> None:
    switch = Switch(Settings(transport="shm", endpoint="shm://nobody"))
    assert switch.route(TARGET) == Route(TARGET, "shm://nobody")
    route = switch.route("robot:1")
    assert (route.endpoint, route.why) == ("", "the map does not name it")
    assert said(capfd) == [
        f"{TARGET} goes to shm://nobody",
        "robot:1 stays on gRPC: the map does not name it; to switch it, add --map robot:1=shm://nobody",
    ]


@pytest.mark.parametrize(
    ("pairs", "endpoint"),
    [
        ("a:1=shm://x b:1=shm://x", "shm://x"),
        ("a:1=shm://x b:1=shm://y", "shm://NAME"),
        ("a:*=shm://{port}", "shm://NAME"),
    ],
)
def test_the_map_to_add_leads_where_the_others_lead(
    pairs: str, endpoint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Switch(Settings(transport="shm", grpc_map=pairs)).route("dns:///c d:1")
    (line,) = said(capfd)
    assert line.endswith(f"add --map 'dns:///c d:1={endpoint}'")


def test_with_auto_no_map_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    Switch(Settings(transport="auto", endpoint="shm://nobody")).route("robot:1")
    assert said(capfd) == ["robot:1 stays on gRPC: the map does not name it"]


def test_grpc_switches_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    switch = Switch(Settings(transport="grpc", grpc_map="*=shm://x"))
    assert switch.route(TARGET).endpoint == ""
    assert said(capfd) == [f"{TARGET} stays on gRPC: the transport is grpc"]


def test_staged_leaves_it_to_each_call_and_asks_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    switch = Switch(Settings(transport="staged", endpoint="shm://nobody"))
    assert switch.route(TARGET) == Route(TARGET, "shm://nobody", is_staged=True)
    assert switch.route("robot:1") == Route("robot:1", "", "the map does not name it")
    assert said(capfd)[0] == f"{TARGET} goes to gRPC or shm://nobody, each method as its stage says"


def test_staged_without_a_router_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "registry", Registry)
    with pytest.raises(ConfigError, match="no plugin offers a router"):
        Switch(Settings(transport="staged", endpoint="shm://x"))


def test_auto_takes_shared_memory_where_an_engine_is() -> None:
    name = unique_name()
    with lucky_transport.serve("echo", f"shm://{name}"):
        assert Switch(Settings(endpoint=f"shm://{name}")).route(TARGET) == Route(TARGET, f"shm://{name}")


@pytest.mark.parametrize("group", ["", "?shared=50051"])
def test_auto_takes_what_is_served_on_the_very_event_loop_that_asks(group: str) -> None:
    endpoint = f"shm://{unique_name()}"

    async def serve_and_ask() -> Route:
        server = lucky_transport_stubs.aio_server()
        server.add_insecure_port(endpoint + group)
        await server.start()
        try:
            return Switch(Settings(endpoint=endpoint)).route(TARGET)
        finally:
            await server.stop(None)

    assert asyncio.run(serve_and_ask()) == Route(TARGET, endpoint)


def test_auto_stays_on_grpc_where_a_server_of_threads_listens_and_is_not_started() -> None:
    endpoint = f"shm://{unique_name()}"
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    server.add_insecure_port(endpoint)  # nobody answers before `start`, and a call's caller would wait for that
    assert Switch(Settings(endpoint=endpoint)).route(TARGET).endpoint == ""
    server.start()
    assert Switch(Settings(endpoint=endpoint)).route(TARGET) == Route(TARGET, endpoint)
    server.stop(None).wait(10)


def test_auto_waits_a_moment_for_an_engine_that_is_starting() -> None:
    name = unique_name()
    switch = Switch(Settings(endpoint=f"shm://{name}"))
    found: list[Route] = []
    asking = threading.Thread(target=lambda: found.append(switch.route(TARGET)))
    asking.start()
    time.sleep(0.05)
    with lucky_transport.serve("echo", f"shm://{name}"):
        asking.join(10)
    assert found == [Route(TARGET, f"shm://{name}")]


def test_auto_connects_once_to_ask_a_server_and_again_after_it_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, asked = f"shm://{unique_name()}", list[str]()

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        asked.append(name)
        return connect_pipe(name, *arguments, **options)

    monkeypatch.setattr(connecting, "connect_pipe", counted)
    switch = Switch(Settings(endpoint=endpoint))
    for times in (1, 2):
        server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
        server.add_insecure_port(endpoint)
        server.start()
        assert [switch.route(TARGET) for _ in range(3)] == [Route(TARGET, endpoint)] * 3
        assert len(asked) == times
        server.stop(None).wait(PATIENCE_S)
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))
    server.add_insecure_port(endpoint)  # and not started
    assert switch.route(TARGET).endpoint == ""
    server.start()
    server.stop(None).wait(PATIENCE_S)


@pytest.mark.parametrize("quiet", [False, True])
def test_auto_says_when_it_stays_on_grpc_and_why(capfd: pytest.CaptureFixture[str], quiet: bool) -> None:
    name = unique_name()
    switch = Switch(Settings(endpoint=f"shm://{name}"), quiet=quiet)
    for _ in range(2):
        route = switch.route(TARGET)
        assert (route.endpoint, route.why) == ("", f"no server or engine at shm://{name}")
    (line,) = said(capfd)
    assert line.startswith(
        f"{TARGET} stays on gRPC: no server or engine at shm://{name} (no server or engine listens at"
    )


def test_auto_asks_again_for_each_channel() -> None:
    name = unique_name()
    switch = Switch(Settings(endpoint=f"shm://{name}"))
    assert switch.route(TARGET).endpoint == ""
    with lucky_transport.serve("echo", f"shm://{name}"):
        assert switch.route(TARGET).endpoint == f"shm://{name}"
    assert switch.route(TARGET).endpoint == ""


def test_quiet_says_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    switch = Switch(Settings(transport="shm", endpoint="shm://x"), quiet=True)
    switch.route(TARGET)
    switch.route("robot:1")
    assert said(capfd) == []


@pytest.mark.parametrize(
    ("settings", "endpoint"),
    [
        (Settings(endpoint="shm://x"), "shm://x"),
        (Settings(shm_name="y"), "shm://y"),
        (Settings(endpoint="shm://x", shm_name="y"), "shm://x"),
        (Settings(endpoint="shm://x", grpc_map="robot:1=shm://z\n  *:50051=shm://{host}"), "shm://localhost"),
    ],
)
def test_the_map_follows_from_the_settings(settings: Settings, endpoint: str) -> None:
    assert target_map(settings).endpoint_of("localhost:50051") == endpoint


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            Settings(transport="inproc", sources={"transport": "argument"}),
            "argument: transport = 'inproc'; .*auto, shm",
        ),
        (Settings(), "nothing says where the engine is; give --endpoint"),
        (Settings(endpoint="grpc://127.0.0.1:1"), "is not an endpoint shm://NAME"),
        (Settings(grpc_map="x"), "is no pair"),
    ],
)
def test_settings_that_do_not_say_where_are_refused(settings: Settings, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Switch(settings)
