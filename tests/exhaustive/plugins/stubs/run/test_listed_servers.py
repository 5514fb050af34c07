"""gRPC servers in shared memory are seen from outside: by `ls`, `inspect` and `top`, with services, calls and peers."""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from click import Context

import lucky_transport_stubs
from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.cli.inspect import inspect
from lucky_transport.diagnosis import servers
from lucky_transport.shm.files.socket_path import live_socket, remove_stale_sockets
from lucky_transport_migration.top.activity import ServerRates
from tests.exhaustive.plugins.stubs.run.test_servers import SYNC, Served
from tests.plugins.stubs.differential.aio_ends import AioEnds
from tests.plugins.stubs.differential.ends import SERVICE, Ends, generic_handler, path
from tests.plugins.stubs.run.conftest import Start
from tests.support.command import stdout_of
from tests.support.forked_programs import CommandLine


def listed(name: str) -> servers.ServerReport:
    (found,) = servers.of_name(name)
    return found


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for the sockets of these servers alone: others remove the stale ones of the usual place."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder) / "lucky_transport"


@pytest.fixture
def name() -> str:
    return f"seen_{secrets.token_hex(4)}"


METHODS: dict[str, Any] = {f"unary_unary {name}": lambda request, context: request for name in ("Echo", "Other")}


@pytest.fixture
def at(name: str, ends: Ends) -> grpc.Server:
    """A server that a program makes itself, without the launcher."""
    return ends.serve(METHODS, address=f"shm://{name}").server


def test_a_server_in_shared_memory_is_listed_with_its_services_and_methods(at: grpc.Server, name: str) -> None:
    found = listed(name)
    assert (found.services, found.methods) == ([SERVICE], (path("Echo"), path("Other")))
    assert (found.pid, found.state, found.transports) == (os.getpid(), "ok", "shm")
    assert found.calls is None, "nothing counts without the launcher"


def test_connected_clients_are_counted(at: grpc.Server, name: str) -> None:
    assert listed(name).peers == 0
    with lucky_transport_stubs.channel(f"shm://{name}") as channel:
        channel.unary_unary(path("Echo"))(b"1", timeout=10)
        assert listed(name).peers == 1


def test_a_server_that_stops_is_listed_no_more_and_leaves_no_file(at: grpc.Server, name: str) -> None:
    socket = live_socket(name)
    assert socket is not None
    assert Path(f"{socket}.json").exists()
    at.stop(None)
    assert servers.of_name(name) == []
    assert not Path(f"{socket}.json").exists()


async def test_a_server_of_asyncio_is_listed_too(name: str, aio: AioEnds) -> None:
    server = aio.server(generic_handler(METHODS))
    server.add_insecure_port(f"shm://{name}")
    assert servers.of_name(name) == []
    await server.start()
    assert listed(name).methods == (path("Echo"), path("Other"))
    await server.stop(None)
    assert servers.of_name(name) == []


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b"{}", b'{"name": 1, "pid": "x", "methods": 3}', b"\xff"])
def test_a_description_that_says_nothing_is_passed_over(at: grpc.Server, name: str, content: bytes) -> None:
    socket = live_socket(name)
    Path(f"{socket}.json").write_bytes(content)
    assert servers.of_name(name) == []


def test_counts_that_cannot_be_read_are_no_error(at: grpc.Server, name: str, tmp_path: Path) -> None:
    path = Path(f"{live_socket(name)}.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"counts": str(tmp_path)}))
    (tmp_path / "1-a.names").write_text("no JSON\n")
    assert listed(name).calls is None


@pytest.fixture
def served(start: Start, name: str) -> Iterator[Served]:
    """A program under `run` whose server listens at a port and at shm://name."""
    command = [sys.executable, "-c", SYNC, "localhost:0"]
    program = start("--transport", "shm", "--map", f"*=shm://{name}", command=command, stdin=subprocess.PIPE)
    yield Served(program)
    program.communicate("", timeout=20)


def test_calls_of_a_server_under_run_are_counted_over_both_transports(served: Served, name: str) -> None:
    (port,) = served.ports
    rates = ServerRates()
    rates.read()
    with ExitStack() as stack:
        for times, channel in (
            (3, lucky_transport_stubs.channel(f"shm://{name}")),
            (2, grpc.insecure_channel(f"localhost:{port}")),
        ):
            echo = stack.enter_context(channel).unary_unary("/test.Test/Echo")
            for _ in range(times):
                echo(b"1", timeout=10)
    found = listed(name)
    assert found.calls == {"/test.Test/Echo": (3, 2)}
    assert (found.total, found.target, found.transports) == (5, f"localhost:{port}", "shm + grpc")
    assert found.services == ["test.Test"], "a handler that lists nothing is known by its calls"
    (seen,) = (one for one in rates.read() if one.report.name == name)
    assert seen.rate is not None
    assert seen.rate > 0


def test_people_and_scripts_see_it_by_ls_inspect_and_top(served: Served, name: str, command_line: CommandLine) -> None:
    shown = command_line.run("ls")
    row = next(line for line in shown.stdout.splitlines() if name in line)
    assert "shm + grpc" in row
    assert row.endswith("ok")
    plain = json.loads(command_line.run("ls", "--json").stdout)
    assert name in [one["name"] for one in plain["servers"]]
    completed = complete_endpoints(Context(inspect), inspect.params[0], f"shm://{name[:-2]}")
    assert f"shm://{name}" in [one.value for one in completed]
    inspected = stdout_of(command_line.run("inspect", f"shm://{name}"))
    assert f"shm://{name}: gRPC server of pid" in inspected
    assert name in command_line.run("top", "--once", "--interval", "0.1").stdout
    plain = json.loads(command_line.run("top", "--once", "--interval", "0.1", "--json").stdout)
    assert name in [one["name"] for one in plain["servers"]]


def test_a_server_that_was_killed_is_stale_until_it_is_removed(
    served: Served, name: str, command_line: CommandLine, directory: Path
) -> None:
    os.kill(listed(name).pid, signal.SIGKILL)
    served.process.wait(timeout=20)
    found = listed(name)
    assert (found.state, found.calls, found.peers) == ("stale", None, None)
    shown = stdout_of(command_line.run("ls"))
    (line,) = (one for one in shown.splitlines() if one.startswith("Servers whose process is gone: "))
    assert line.endswith("; `lucky-transport doctor --fix` removes what they left.")
    inspected = command_line.run("inspect", f"shm://{name}")
    assert inspected.returncode == 1
    assert "which is gone" in inspected.stdout
    assert len(remove_stale_sockets([directory])) == 1
    assert servers.of_name(name) == []
    assert list(directory.iterdir()) == []
