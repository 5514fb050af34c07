"""Targets in all of gRPC's spellings, and the map from targets to endpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError
from lucky_transport_stubs.run.targets import DEFAULT_TARGET, TargetMap, authority_of, parse_target

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
