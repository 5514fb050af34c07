"""Relays of a host: the command that starts one, and the servers that it leads to."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport.process import unique_name
from tests.plugins.stubs.relay.conftest import Serve, Stuck, Through, echo, relay_to
from tests.plugins.stubs.run.conftest import BOOTSTRAP
from tests.support.forked_programs import CommandLine, Program
from tests.support.waiting import PATIENCE_S, until

#: Starts a relay to a port of this host, at an endpoint; returns its process once it is ready.
Start = Callable[..., "subprocess.Popen[str] | Program"]

CLIENT = """
import sys
import grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    print(channel.unary_unary("/t.Test/Echo")(b"hello", timeout=60).decode())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for sockets and temporary files; its name is short, as those of sockets must be."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def command_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    found = CommandLine({**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}, folder)
    yield found
    found.close()


@pytest.fixture
def start(command_line: CommandLine) -> Start:
    def relay(
        port: int, endpoint: str, *options: str, variables: Mapping[str, str] = {}
    ) -> subprocess.Popen[str] | Program:
        given = ("relay", f"grpc://127.0.0.1:{port}", "--endpoint", endpoint, *options)
        process = command_line.start(*given, **{"stdin": subprocess.DEVNULL, **variables})  # pyright: ignore[reportArgumentType]
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready {endpoint.replace('{port}', str(port))}\n"
        return process

    return relay


@pytest.mark.parametrize("pattern", ["127.0.0.1:{port}=shm://{name}", "127.0.0.1:*=shm://{name}_{{port}}"])
def test_an_unchanged_program_finds_it_by_its_target_or_by_the_port(
    serve: Serve, start: Start, command_line: CommandLine, pattern: str
) -> None:
    port, name = serve({"unary_unary Echo": echo}), unique_name()
    pair = pattern.format(port=port, name=name)
    start(port, pair.partition("=")[2])
    command = (sys.executable, "-c", CLIENT, f"127.0.0.1:{port}")
    done = command_line.run("run", "--transport", "shm", "--require", "--report", "-", "--map", pair, "--", *command)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert "1 call over shared memory" in done.stderr


def test_a_relay_under_run_leads_to_its_upstream_and_not_to_itself(serve: Serve, start: Start) -> None:
    port, name = serve({"unary_unary Echo": echo}), unique_name()
    switched = {"PYTHONPATH": BOOTSTRAP, "LUCKY_TRANSPORT": "shm", "LUCKY_GRPC_MAP": f"*=shm://{name}"}
    start(port, f"shm://{name}", variables=switched)
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S) == b"x"


def test_ls_inspect_and_top_show_it_with_its_upstream(serve: Serve, start: Start, command_line: CommandLine) -> None:
    port, name = serve({"unary_unary Echo": echo}), unique_name()
    start(port, f"shm://{name}")
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        for _ in range(3):
            channel.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S)
        row = next(line for line in command_line.run("ls").stdout.splitlines() if name in line).split()
        assert row[:6] == [name, "t.Test", "-", "3", "1", "relay"]
        assert row[6] == f"127.0.0.1:{port}"
        inspected = command_line.run("inspect", f"shm://{name}").stdout
    assert f"relay to the server at 127.0.0.1:{port}, 1 peer" in inspected
    assert "/t.Test/Echo" in inspected
    servers = json.loads(command_line.run("ls", "--json").stdout)["servers"]
    found = next(one for one in servers if one["name"] == name)
    assert (found["is_relay"], found["target"], found["calls"]["/t.Test/Echo"]["shm"]) == (True, f"127.0.0.1:{port}", 3)
    (row,) = (
        line for line in command_line.run("top", "--once", "--interval", "0.1").stdout.splitlines() if name in line
    )
    assert "relay" in row


def test_sigterm_lets_calls_end_refuses_new_ones_and_leaves_nothing(serve: Serve, start: Start, folder: Path) -> None:
    entered, goes_on = threading.Event(), threading.Event()

    def late(request: bytes, context: Any) -> bytes:
        entered.set()
        goes_on.wait(PATIENCE_S)
        return b"after all"

    port, name = serve({"unary_unary Late": late, "unary_unary Echo": echo}), unique_name()
    relay = start(port, f"shm://{name}", "--grace", str(PATIENCE_S))
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        call = channel.unary_unary("/t.Test/Late").future(b"", timeout=PATIENCE_S)
        assert entered.wait(PATIENCE_S)
        relay.send_signal(signal.SIGTERM)
        refused = None
        while refused is None:
            try:
                channel.unary_unary("/t.Test/Echo")(b"", timeout=PATIENCE_S)
            except grpc.RpcError as error:
                refused = error
        assert refused.code() is grpc.StatusCode.UNAVAILABLE
        assert not call.done()
        goes_on.set()
        assert call.result(PATIENCE_S) == b"after all"
    assert relay.wait(PATIENCE_S) == 0
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert list(folder.glob("lucky-run-*")) == []


def test_sigterm_ends_what_does_not_end_by_itself(serve: Serve, start: Start) -> None:
    stuck = Stuck()
    port, name = serve({"unary_stream Stuck": stuck}), unique_name()
    relay = start(port, f"shm://{name}", "--grace", "0")
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        call = channel.unary_stream("/t.Test/Stuck")(b"", timeout=PATIENCE_S)
        assert stuck.entered.wait(PATIENCE_S)
        relay.send_signal(signal.SIGTERM)
        assert call.code() is grpc.StatusCode.UNAVAILABLE
    assert relay.wait(PATIENCE_S) == 0
    assert stuck.ended.wait(PATIENCE_S)


def test_a_relay_that_is_killed_ends_its_calls_and_another_takes_its_place(
    serve: Serve, start: Start, folder: Path
) -> None:
    stuck = Stuck()
    port, name = serve({"unary_stream Stuck": stuck, "unary_unary Echo": echo}), unique_name()
    relay = start(port, f"shm://{name}")
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        call = channel.unary_stream("/t.Test/Stuck")(b"", timeout=PATIENCE_S)
        assert stuck.entered.wait(PATIENCE_S)
        relay.kill()
        assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert stuck.ended.wait(PATIENCE_S)
        relay.wait(PATIENCE_S)
        another = start(port, f"shm://{name}")
        assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S) == b"x"
    another.terminate()
    assert another.wait(PATIENCE_S) == 0
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert list(folder.glob("lucky-run-*")) == []
    assert not any(name in path for path in os.listdir("/dev/shm"))


def test_a_wrong_upstream_ends_it_with_one_line(command_line: CommandLine) -> None:
    done = command_line.run("relay", "shm://a", "--endpoint", "shm://b")
    assert done.returncode == 1
    assert "a relay leads to grpc, grpcs, grpc+unix, not to 'shm://a'" in done.stderr
    assert done.stderr.count("\n") == 1


MIB = 1 << 20
STREAMS = 100
PACKAGE = "@grpc/grpc-js@1.14.3"
SERVER = Path(__file__).parents[4] / "plugins" / "stubs" / "relay" / "server.js"


@pytest.fixture
def port(serve: Serve) -> int:
    """Of a server that answers many streams at once and renews its connections every tenth of a second."""

    def peer(request: bytes, context: Any) -> bytes:
        return context.peer().encode()

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        while context.is_active():
            yield b"x" * MIB

    methods = {
        "stream_stream Each": lambda requests, context: requests,
        "unary_unary Echo": echo,
        "unary_stream Endless": endless,
        "unary_unary Peer": peer,
    }
    return serve(methods, workers=STREAMS + 10, options=(("grpc.max_connection_age_ms", 100),))


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
    relay = stack.enter_context(relay_to(port))
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
