"""`lucky-transport relay` for people: how a program finds it, how it is seen, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.run.activation import BOOTSTRAP
from tests.plugins.stubs.relay.conftest import Serve
from tests.support.forked_programs import CommandLine, Program
from tests.support.waiting import PATIENCE_S

#: Starts a relay to a port of this host, at an endpoint; returns its process once it is ready.
Start = Callable[..., "subprocess.Popen[str] | Program"]

CLIENT = """
import sys
import grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    print(channel.unary_unary("/t.Test/Echo")(b"hello", timeout=60).decode())
"""


def echo(request: bytes, context: Any) -> bytes:
    return request


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
    entered, ended = threading.Event(), threading.Event()

    def stuck(request: bytes, context: Any) -> bytes:
        context.add_callback(ended.set)
        entered.set()
        ended.wait(PATIENCE_S)
        return b""

    port, name = serve({"unary_unary Stuck": stuck}), unique_name()
    relay = start(port, f"shm://{name}", "--grace", "0")
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        call = channel.unary_unary("/t.Test/Stuck").future(b"", timeout=PATIENCE_S)
        assert entered.wait(PATIENCE_S)
        relay.send_signal(signal.SIGTERM)
        assert call.code() is grpc.StatusCode.UNAVAILABLE
    assert relay.wait(PATIENCE_S) == 0
    assert ended.wait(PATIENCE_S)


def test_a_relay_that_is_killed_ends_its_calls_and_another_takes_its_place(
    serve: Serve, start: Start, folder: Path
) -> None:
    entered, ended = threading.Event(), threading.Event()

    def stuck(request: bytes, context: Any) -> bytes:
        context.add_callback(ended.set)
        entered.set()
        ended.wait(PATIENCE_S)
        return b""

    port, name = serve({"unary_unary Stuck": stuck, "unary_unary Echo": echo}), unique_name()
    relay = start(port, f"shm://{name}")
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        call = channel.unary_unary("/t.Test/Stuck").future(b"", timeout=PATIENCE_S)
        assert entered.wait(PATIENCE_S)
        relay.kill()
        assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert ended.wait(PATIENCE_S)
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
