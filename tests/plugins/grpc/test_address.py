"""An endpoint is right or wrong before gRPC sees it, and a socket file is never taken from a living server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport_grpc.address import SocketFile, service_of, target_of


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("grpc://127.0.0.1:50051", "127.0.0.1:50051"),
        ("grpc://localhost:1?service=agent", "localhost:1"),
        ("grpc://[::1]:50051", "[::1]:50051"),
        ("grpc+unix:///run/x.sock", "unix:/run/x.sock"),
        ("grpc+unix://x.sock", "unix:x.sock"),
    ],
)
def test_an_endpoint_becomes_a_grpc_target(url: str, target: str) -> None:
    assert target_of(Endpoint.parse(url)) == target


@pytest.mark.parametrize(
    "url", ["grpc:", "grpc://127.0.0.1", "grpc://:50051", "grpc://h:port", "grpc://h:70000", "grpc+unix:"]
)
def test_a_malformed_address_is_named_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match=r"write for instance grpc"):
        target_of(Endpoint.parse(url))


@pytest.mark.parametrize(
    ("query", "words"),
    [("service=fast", "expected one of auto, batch, agent"), ("sevrice=agent", "did you mean 'service'")],
)
def test_an_option_there_is_not_is_refused(query: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        service_of(Endpoint.parse(f"grpc://h:1?{query}"))


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    SocketFile(Endpoint.parse(f"grpc+unix://{path}")).prepare()
    assert not path.exists()


def test_a_living_servers_socket_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(path))
        alive.listen()
        with pytest.raises(NotReachable, match="another server listens there"):
            SocketFile(Endpoint.parse(f"grpc+unix://{path}")).prepare()
        assert path.is_socket()


def test_a_file_that_is_no_socket_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(NotReachable, match="a file that is no socket is there"):
        SocketFile(Endpoint.parse(f"grpc+unix://{path}")).prepare()
    assert path.read_text() == "precious"


def test_only_the_own_socket_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    mine = SocketFile(Endpoint.parse(f"grpc+unix://{path}"))
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.bind(str(path))
        mine.protect()
        path.rename(tmp_path / "kept.sock")  # keeps the inode in use, so that the next file gets another one
        second.bind(str(path))
        mine.remove()
        assert path.is_socket()


def test_a_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(path))
        file = SocketFile(Endpoint.parse(f"grpc+unix://{path}"))
        file.protect()
        assert path.stat().st_mode & 0o777 == 0o600
        file.remove()
        assert not path.exists()
