"""Where a channel goes: targets in all of gRPC's spellings, the map, the modes, and what is said about it."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lucky_transport
import lucky_transport_stubs
from lucky_transport import deadline
from lucky_transport.config import Settings
from lucky_transport.errors import ConfigError
from lucky_transport.process import unique_name
from lucky_transport.registry import Registry
from lucky_transport.shm.listener import connecting
from lucky_transport.shm.listener.connecting import connect_pipe
from lucky_transport_stubs.run.switch import Route, Switch, target_map
from lucky_transport_stubs.run.targets import DEFAULT_TARGET, TargetMap, authority_of, parse_target
from lucky_transport_stubs.staged import router
from tests.support.waiting import PATIENCE_S

TARGET = "127.0.0.1:50051"


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, without who says them."""
    return [line.partition(": ")[2].partition(": ")[2] for line in capfd.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    ("transport", "pairs", "target", "endpoint", "line"),
    [
        ("shm", "*:50051=shm://x", TARGET, "shm://x", "goes to shm://x"),
        ("shm", "a:1=shm://x b:1=shm://x", "c:1", "", "does not name it; to switch it, add --map c:1=shm://x"),
        ("shm", "a:1=shm://x b:1=shm://y", "dns:///c d:1", "", "add --map 'dns:///c d:1=shm://NAME'"),
        ("shm", "a:*=shm://{port}", "c:1", "", "add --map c:1=shm://NAME"),
        ("auto", "a:1=shm://x", "c:1", "", "stays on gRPC: the map does not name it"),
        ("grpc", "*=shm://x", TARGET, "", "stays on gRPC: the transport is grpc"),
        ("staged", "*:50051=shm://x", TARGET, "shm://x", "goes to gRPC or shm://x, each method as its stage says"),
        ("staged", "a:1=shm://x", "c:1", "", "stays on gRPC: the map does not name it"),
    ],
)
def test_a_target_goes_where_map_and_transport_say_and_that_is_said(
    transport: str, pairs: str, target: str, endpoint: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(transport=transport, grpc_map=pairs)
    found = Switch(settings).route(target)
    assert (found.endpoint, found.is_staged) == (endpoint, transport == "staged" and bool(endpoint))
    (seen,) = said(capfd)
    assert seen.startswith(target)
    assert seen.endswith(line)
    assert endpoint or found.why in seen
    Switch(settings, quiet=True).route(target)
    assert said(capfd) == []


def test_staged_without_a_router_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "registry", Registry)
    with pytest.raises(ConfigError, match="no plugin offers a router"):
        Switch(Settings(transport="staged", endpoint="shm://x"))


def test_auto_takes_shared_memory_where_an_engine_is() -> None:
    name = unique_name()
    with lucky_transport.serve("echo", f"shm://{name}"):
        assert Switch(Settings(endpoint=f"shm://{name}")).route(TARGET) == Route(TARGET, f"shm://{name}")


@pytest.mark.parametrize("group", ["", "?shared=50051"])
async def test_auto_takes_what_is_served_on_the_very_event_loop_that_asks(aio: Any, group: str) -> None:
    endpoint = aio.address()
    await aio.serve({}, address=endpoint + group)
    assert Switch(Settings(endpoint=endpoint)).route(TARGET) == Route(TARGET, endpoint)


def test_auto_waits_a_moment_for_an_engine_that_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_transport_stubs.run.switch._MOMENT_S", PATIENCE_S)  # on a busy machine it starts late
    name = unique_name()
    switch = Switch(Settings(endpoint=f"shm://{name}"))
    found: list[Route] = []
    asking = threading.Thread(target=lambda: found.append(switch.route(TARGET)))
    asking.start()
    time.sleep(0.05)
    with lucky_transport.serve("echo", f"shm://{name}"):
        asking.join(PATIENCE_S)
    assert found == [Route(TARGET, f"shm://{name}")]


def test_auto_connects_once_to_ask_a_server_and_again_after_it_was_restarted(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, asked = ends.address(), list[str]()

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        asked.append(name)
        return connect_pipe(name, *arguments, **options)

    monkeypatch.setattr(connecting, "connect_pipe", counted)
    switch = Switch(Settings(endpoint=endpoint))
    for times in (1, 2):
        server = ends.serve({}, address=endpoint).server
        assert [switch.route(TARGET) for _ in range(3)] == [Route(TARGET, endpoint)] * 3
        assert len(asked) == times
        server.stop(None).wait(PATIENCE_S)
    server = ends.server()
    server.add_insecure_port(endpoint)  # nobody answers before `start`, and a call's caller would wait for that
    assert switch.route(TARGET).endpoint == ""
    server.start()
    assert switch.route(TARGET) == Route(TARGET, endpoint)


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


_HERE = [
    "127.0.0.1:50051",
    "localhost:50051",
    "LOCALHOST:50051",
    "[::1]:50051",
    "0.0.0.0:50051",
    "[::]:50051",
    "[::ffff:127.0.0.1]:50051",
    "dns:localhost:50051",
    "dns:///localhost:50051",
    "dns:///127.0.0.1:50051",
    "dns://8.8.8.8/localhost:50051",
    "dns:///%5B::1%5D:50051",
    "ipv4:127.0.0.1:50051",
    "ipv4:///127.0.0.1:50051",
    "ipv6:[::1]:50051",
    "ipv6:%5B::1%5D:50051",
    " 127.0.0.1:50051 ",
]


@pytest.mark.parametrize("target", _HERE)
def test_every_spelling_of_the_default_target_is_the_default_target(target: str) -> None:
    assert [str(place) for place in parse_target(target)] == [DEFAULT_TARGET]
    assert TargetMap([f"{DEFAULT_TARGET}=shm://x"]).endpoint_of(target) == "shm://x"
    assert TargetMap([f"{target.strip()}=shm://x"]).endpoint_of(DEFAULT_TARGET) == "shm://x"


@pytest.mark.parametrize(
    ("target", "canonical"),
    [
        ("Robot:1", "robot:1"),
        ("robot", "robot:443"),
        ("10.0.0.7:1", "10.0.0.7:1"),
        ("[2001:DB8:0::1]:1", "[2001:db8::1]:1"),
        ("2001:db8::1", "[2001:db8::1]:443"),
        ("unix:///run/engine.sock", "unix:/run/engine.sock"),
        ("unix:/run/engine.sock", "unix:/run/engine.sock"),
        ("unix:engine.sock", "unix:engine.sock"),
        ("unix-abstract:engine", "unix-abstract:engine"),
        ("xds:///robots", "xds:///robots"),
        ("localhost:http", "localhost:http"),
    ],
)
def test_a_target_has_one_canonical_spelling(target: str, canonical: str) -> None:
    assert [str(place) for place in parse_target(target)] == [canonical]


@pytest.mark.parametrize(
    "other", ["127.0.0.2:50051", "[::ffff:127.0.0.2]:50051", "dns:///127.0.0.2:50051", "ipv4:127.0.0.2:50051"]
)
def test_another_loopback_address_is_a_place_of_its_own(other: str) -> None:
    assert [str(place) for place in parse_target(other)] == ["127.0.0.2:50051"]
    assert TargetMap([f"{other}=shm://x"]).endpoint_of(DEFAULT_TARGET) == ""
    assert TargetMap([f"{DEFAULT_TARGET}=shm://x"]).endpoint_of(other) == ""
    robots = TargetMap(["127.0.0.2:*=shm://two", "127.0.0.*:*=shm://one"])
    assert [robots.endpoint_of(target) for target in (other, DEFAULT_TARGET)] == ["shm://two", "shm://one"]


@given(st.text())
def test_any_text_is_a_target(text: str) -> None:
    places = parse_target(text)
    assert places
    TargetMap(["*:50051=shm://x"]).endpoint_of(text)


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*", "unix:/run/x", None),
        ("*:*", "anywhere:1", None),
        ("*:50051", "robot:50051", "robot:50052"),
        ("127.0.0.1:*", "localhost:7", "robot:7"),
        ("[::1]:*", "127.0.0.1:7", "robot:7"),
        ("*.lab:443", "a.b.lab", "lab:443"),
        ("unix:*", "unix:///run/x", "localhost:1"),
        ("unix:/run/*.sock", "unix:///run/x.sock", "unix:///tmp/x.sock"),
        ("dns:///robot:1", "robot:1", "robot:2"),
        ("robot.a:1", "robot.a:1", "robotxa:1"),
    ],
)
def test_a_pattern_fits_what_it_says(pattern: str, fits: str, does_not: str | None) -> None:
    found = TargetMap([f"{pattern}=shm://x"])
    assert found.endpoint_of(fits) == "shm://x"
    assert does_not is None or found.endpoint_of(does_not) == ""


def test_the_first_pair_that_fits_decides() -> None:
    found = TargetMap(["localhost:1=shm://one", "localhost:*=shm://many", "localhost:2=shm://never"])
    assert [found.endpoint_of(f"localhost:{port}") for port in (1, 2)] == ["shm://one", "shm://many"]


def test_an_endpoint_can_be_made_of_the_targets_own_host_and_port() -> None:
    found = TargetMap(["localhost:*=shm://engine_{port}", "*=shm://{host}_{port}"])
    assert found.endpoint_of("127.0.0.1:50051") == "shm://engine_50051"
    assert found.endpoint_of("Robot.lab:7") == "shm://robot.lab_7"
    assert found.endpoint_of("[2001:db8::1]:7") == "shm://2001_db8__1_7"


def test_a_path_is_what_it_leads_to_from_where_the_program_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "link").symlink_to("one")
    named, made = TargetMap(["unix:engine.sock=shm://x"]), TargetMap(["unix:*=shm://{host}"])
    found: dict[str, set[str]] = {"one": set(), "two": set()}
    for folder, texts in found.items():
        monkeypatch.chdir(tmp_path / folder)
        texts |= {
            made.endpoint_of(text) for text in ("unix:engine.sock", "unix:./engine.sock", "unix:../two//engine.sock")
        }
        assert named.endpoint_of("unix:engine.sock") == "shm://x"
    monkeypatch.chdir(tmp_path)
    one = {made.endpoint_of(f"unix:{text}/engine.sock") for text in ("one", "link", tmp_path / "link")}
    assert len(one) == len(found["two"]) == 1
    assert found["one"] == one | found["two"]
    assert one != found["two"]


def test_a_call_that_waits_for_its_server_says_no_more_than_grpc_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deadline, "NOTICE_AFTER_S", 0.01)
    with lucky_transport_stubs.channel(f"shm://{unique_name()}") as channel, pytest.raises(Exception, match="DEADLINE"):
        channel.unary_unary("/a.B/C")(b"", wait_for_ready=True, timeout=0.2)
    assert not caplog.records


def test_several_addresses_are_switched_only_together() -> None:
    found = TargetMap(["127.0.0.1:*=shm://here"])
    assert found.endpoint_of("ipv4:127.0.0.1:1,127.0.0.1:2") == "shm://here"
    assert found.endpoint_of("ipv4:127.0.0.1:1,10.0.0.7:1") == ""
    assert TargetMap(["ipv4:127.0.0.1:1,127.0.0.1:2=shm://x"]).endpoint_of("localhost:2") == "shm://x"


@pytest.mark.parametrize(
    "pair",
    [
        "",
        "localhost:1",
        "=shm://x",
        "localhost:1=",
        "localhost:1=x",
        "localhost:1=grpc://robot:1",
        "localhost:1=shm://",
        "localhost:1=shm://{name}",
        "localhost:1=shm://{port",
    ],
)
def test_a_pair_that_cannot_be_read_is_refused_with_an_example(pair: str) -> None:
    with pytest.raises(ConfigError, match="shm://"):
        TargetMap([pair])


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        ("127.0.0.1:50051", "127.0.0.1:50051"),
        ("robot", "robot"),
        ("[::1]:50051", "[::1]:50051"),
        ("dns:///robot:50051", "robot:50051"),
        ("dns://8.8.8.8/robot:50051", "robot:50051"),
        ("ipv4:10.0.0.7:50051", "10.0.0.7:50051"),
        ("unix:/run/engine.sock", "run%2Fengine.sock"),
        ("unix:///run/engine.sock", "run%2Fengine.sock"),
    ],
)
def test_the_authority_of_a_target_is_what_grpc_tells_plugins_of_credentials(target: str, authority: str) -> None:
    assert authority_of(target) == authority
