"""Endpoints are URLs, and what is written is what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.endpoint import Endpoint
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
