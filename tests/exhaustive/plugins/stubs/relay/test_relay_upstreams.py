"""A relay's upstreams: many calls that keep no other one up, renewed connections, a server in JavaScript."""

from __future__ import annotations

import queue
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.relay.relay import Relay
from tests.plugins.stubs.relay.conftest import Serve, Through
from tests.support.waiting import PATIENCE_S, until

MIB = 1 << 20
STREAMS = 100
PACKAGE = "@grpc/grpc-js@1.14.3"
SERVER = Path(__file__).parents[4] / "plugins" / "stubs" / "relay" / "server.js"


def echo(request: bytes, context: Any) -> bytes:
    return request


def each(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    yield from requests


@pytest.fixture
def port(stack: ExitStack) -> int:
    """Of a server that answers many streams at once and renews its connections every tenth of a second."""

    def peer(request: bytes, context: Any) -> bytes:
        return context.peer().encode()

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        while context.is_active():
            yield b"x" * MIB

    handlers = {
        "Each": grpc.stream_stream_rpc_method_handler(each),
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Endless": grpc.unary_stream_rpc_method_handler(endless),
        "Peer": grpc.unary_unary_rpc_method_handler(peer),
    }
    pool = ThreadPoolExecutor(STREAMS + 10)
    stack.callback(pool.shutdown, wait=False)
    options = (("grpc.max_connection_age_ms", 100), ("grpc.so_reuseport", 0))
    server = grpc.server(pool, [grpc.method_handlers_generic_handler("t.Test", handlers)], options=options)
    found = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(lambda: server.stop(None).wait())
    return found


def test_a_hundred_streams_are_open_at_once(port: int, through: Through) -> None:
    channel = through(port)
    sent: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(STREAMS)]
    calls = [channel.stream_stream("/t.Test/Each")(iter(one.get, None), timeout=PATIENCE_S) for one in sent]
    for number in range(3):
        for one in sent:
            one.put(b"%d" % number)
        assert {next(call) for call in calls} == {b"%d" % number}
    for one in sent:
        one.put(None)
    assert [item for call in calls for item in call] == []


def test_clients_that_read_nothing_keep_no_other_one_up(port: int, stack: ExitStack) -> None:
    relay = stack.enter_context(Relay(f"grpc://127.0.0.1:{port}", f"shm://{unique_name()}"))
    one, other = (stack.enter_context(lucky_transport_stubs.channel(relay.endpoint)) for _ in range(2))
    slow = [one.unary_stream("/t.Test/Endless")(b"") for _ in range(20)]
    for call in slow:
        next(call)
    echo = other.unary_unary("/t.Test/Echo")
    for _ in range(20):
        assert len(echo(b"y" * MIB, timeout=PATIENCE_S)) == MIB
    for call in slow:
        call.cancel()


def test_calls_go_on_while_the_server_renews_the_connection(port: int, through: Through) -> None:
    call, peers = through(port).unary_unary("/t.Test/Peer"), set[bytes]()
    while len(peers) < 3:
        peers.add(call(b"", timeout=PATIENCE_S))


def test_metadata_as_long_as_the_client_takes_pass_each_time(serve: Serve, through: Through) -> None:
    def answer(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("first", "x" * 14_000),))
        context.set_trailing_metadata((("last", "x" * 14_000),))
        return request

    method = through(serve({"unary_unary Answer": answer})).unary_unary("/t.Test/Answer")
    for _ in range(10):
        _, call = method.with_call(b"", timeout=PATIENCE_S)
        assert [len(value) for _, value in (*call.initial_metadata(), *call.trailing_metadata())] == [14_000] * 2


@pytest.fixture(scope="module")
def node_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
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
def channel(node_port: int, through: Through) -> Any:
    return through(node_port, (("grpc.max_receive_message_length", -1),))


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


def test_metadata_and_statuses_of_a_server_in_javascript_arrive(node_port: int, channel: Any) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{node_port}") as direct:
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
