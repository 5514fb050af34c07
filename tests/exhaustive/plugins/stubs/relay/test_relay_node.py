"""A client in Python reaches a server in JavaScript (`@grpc/grpc-js`) through a relay."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_grpc.runtime import grpc
from tests.support.fixtures.plugins_stubs_relay import Through
from tests.support.waiting import PATIENCE_S, until

PACKAGE = "@grpc/grpc-js@1.14.3"
SERVER = Path(__file__).parents[4] / "plugins" / "stubs" / "relay" / "server.js"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server in JavaScript; its package is fetched from npm's registry."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm fetched no {PACKAGE} in {PATIENCE_S:g} s")
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    with subprocess.Popen([node, str(SERVER)], cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest.fixture
def channel(port: int, through: Through) -> Any:
    return through(port, (("grpc.max_receive_message_length", -1),))


def test_calls_of_every_kind_are_answered_by_a_server_in_javascript(channel: Any) -> None:
    assert channel.unary_unary("/t.Test/Echo")(b"x" * (8 << 20), timeout=PATIENCE_S) == b"x" * (8 << 20)
    assert list(channel.unary_stream("/t.Test/Count")(b"300", timeout=PATIENCE_S)) == [b"%d" % i for i in range(300)]
    parts = [b"%d," % i for i in range(300)]
    assert channel.stream_unary("/t.Test/Collect")(iter(parts), timeout=PATIENCE_S) == b"".join(parts)
    assert list(channel.stream_stream("/t.Test/Chat")(iter(parts), timeout=PATIENCE_S)) == parts


def said(channel: Any, method: str) -> list[Any]:
    """Return what a call says of its end; the server sends the metadata back that it got."""
    sent = (("sent", "one"), ("sent", "two"), ("sent-bin", b"\0\xff"))
    call = channel.unary_unary(f"/t.Test/{method}").future(b"", metadata=sent, timeout=PATIENCE_S)
    call.exception(PATIENCE_S)
    kept = [
        [tuple(pair) for pair in pairs if pair[0] != "date"]
        for pairs in (call.initial_metadata(), call.trailing_metadata())
    ]
    return [call.code(), call.details(), *kept]


def test_metadata_and_statuses_of_a_server_in_javascript_arrive(port: int, channel: Any) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as direct:
        expected = {method: said(direct, method) for method in ("Echo", "Refuse", "Unknown")}
    assert {method: said(channel, method) for method in expected} == expected
    assert ("got-bin", b"\0\xff") in expected["Echo"][2]
    assert expected["Refuse"][:2] == [grpc.StatusCode.RESOURCE_EXHAUSTED, "no more"]
    assert expected["Unknown"][0] is grpc.StatusCode.UNIMPLEMENTED


def test_a_server_in_javascript_is_told_deadlines_and_cancellation(channel: Any) -> None:
    call = channel.unary_stream("/t.Test/Stuck")(b"", timeout=PATIENCE_S)
    assert 0 < float(next(call)) <= PATIENCE_S * 1000
    call.cancel()
    until(lambda: channel.unary_unary("/t.Test/Told")(b"", timeout=PATIENCE_S) == b"cancelled")
    assert next(channel.unary_stream("/t.Test/Stuck")(b"")) == b"no deadline"
