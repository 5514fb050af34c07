"""Endpoints are URLs, what is written is what is read; their options are read by a plugin's list."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, switch, whole
from lucky_transport.errors import ConfigError

SCHEMES = st.from_regex(r"[a-z][a-z0-9+.\-]*", fullmatch=True)
ADDRESSES = st.text(st.characters(codec="utf-8", exclude_characters="?", categories=("L", "N", "P", "S"))).filter(
    lambda text: not text.startswith("//")
)
OPTIONS = st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("grpc://127.0.0.1:50051", Endpoint("grpc", "127.0.0.1:50051")),
        ("grpc+unix:///run/engine.sock", Endpoint("grpc+unix", "/run/engine.sock")),
        ("shm://lucky_demo", Endpoint("shm", "lucky_demo")),
        ("SHM://Name", Endpoint("shm", "Name")),
        ("inproc:", Endpoint("inproc")),
        ("shm:name", Endpoint("shm", "name")),
        ("shm://x?wait=spin&slots=0", Endpoint("shm", "x", (("wait", "spin"), ("slots", "0")))),
        ("grpc://[::1]:50051", Endpoint("grpc", "[::1]:50051")),
    ],
)
def test_a_url_is_taken_apart(text: str, endpoint: Endpoint) -> None:
    assert Endpoint.parse(text) == endpoint


@given(scheme=SCHEMES, address=ADDRESSES, options=OPTIONS)
def test_what_is_written_is_what_is_read(scheme: str, address: str, options: tuple[tuple[str, str], ...]) -> None:
    endpoint = Endpoint(scheme, address, options)
    assert Endpoint.parse(str(endpoint)) == endpoint


@given(text=st.text())
def test_any_text_is_an_endpoint_or_a_config_error(text: str) -> None:
    try:
        endpoint = Endpoint.parse(text)
    except ConfigError:
        return
    assert endpoint.scheme == endpoint.scheme.lower() != ""


@pytest.mark.parametrize("text", ["", "name", "://x", "sh m://x", "127.0.0.1/path"])
def test_what_is_no_url_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a URL; write for instance shm://name or grpc://127\.0\.0\.1:50051"):
        Endpoint.parse(text)


@pytest.mark.parametrize("text", ["127.0.0.1:50051", "localhost:50051", "robot-7.lab:9000", "[::1]:50051"])
def test_a_target_of_grpc_is_asked_back(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Endpoint.parse(text)
    assert str(refused.value) == f"endpoint {text!r} names no transport; did you mean grpc://{text}?"


def test_a_malformed_query_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"behind '\?' is malformed .*; write \?key=value"):
        Endpoint.parse("shm://x?wait")


def test_another_address_keeps_scheme_and_options() -> None:
    assert str(Endpoint.parse("grpc://h:0?a=b").with_address("h:7")) == "grpc://h:7?a=b"


_OPTIONS = {
    "actors": EndpointOption(whole(1), "a number of actors, at least 1"),
    "map": EndpointOption(str, "a map", field="map_name"),
}


def read(query: str, **others: object) -> dict[str, object]:
    return read_options(Endpoint.parse(f"ray:?{query}"), _OPTIONS, backend="ray", others=others)


def test_values_come_by_their_fields() -> None:
    assert read("map=ridge&actors=2") == {"map_name": "ridge", "actors": 2}
    assert read_options(Endpoint.parse("ray:"), _OPTIONS, backend="ray") == {}


def test_what_is_for_the_other_end_is_passed_over() -> None:
    assert read("rate=25&actors=1", rate=1) == {"actors": 1}


def test_an_unknown_option_is_told_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'actor'; did you mean 'actors'\?.*there are actors, map, rate"
    ):
        read("actor=2", rate=1)


def test_a_value_that_cannot_be_read_is_told_with_what_is_expected() -> None:
    with pytest.raises(ConfigError, match=r"'ray:\?actors=0': actors=0; expected a number of actors, at least 1"):
        read("actors=0")


@given(st.integers(-3, 12))
def test_a_whole_number_has_bounds(value: int) -> None:
    if 2 <= value <= 9:
        assert whole(2, 9)(str(value)) == value
    else:
        with pytest.raises(ValueError):
            whole(2, 9)(str(value))


@given(st.text(max_size=6))
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (whole(), number(1e6), number(1e6, positive=True), one_of("a", "b"), switch):
        try:
            value = reader(text)
        except ValueError:
            continue
        if isinstance(value, float):
            assert 0 <= value <= 1e6


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e7", "0"])
def test_a_number_is_finite_and_within_its_bounds(text: str) -> None:
    with pytest.raises(ValueError):
        number(1e6, positive=True)(text)
    assert math.isclose(number(1e6)("2.5"), 2.5)


def test_a_switch_is_1_or_0() -> None:
    assert (switch("1"), switch("0")) == (True, False)
    with pytest.raises(ValueError):
        switch("yes")
