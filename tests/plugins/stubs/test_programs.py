"""Programs in the manner of gRPC's examples: unmodified on both sides, they print the same over TCP and under `run`."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

PROGRAMS = Path(__file__).with_name("programs")
#: What a program needs beside grpc.
NEEDED = {"channelz": "grpc_channelz", "health_checking": "grpc_health", "reflection": "grpc_reflection"}
#: Its client is there before its server; all others find one.
EARLY = "wait_for_ready"


def programs() -> Iterator[Any]:
    """Yield each program, over threads and over asyncio."""
    for kind in ("threads", "aio"):
        for path in sorted((PROGRAMS / kind).glob("*.py")):
            package = NEEDED.get(path.stem, "grpc")
            absent = pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")
            yield pytest.param(path, id=f"{kind}-{path.stem}", marks=absent)


@contextmanager
def started(path: Path, end: str, address: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start one end of a program, under `run` where there are options for it; it is ended afterwards."""
    command = [sys.executable, str(path), end, address]
    if options:
        command = [
            sys.executable,
            "-m",
            "lucky_transport",
            "run",
            "--report",
            "-",
            "--transport",
            "shm",
            *options,
            "--",
            *command,
        ]
    environ = os.environ | {"PYTHONPATH": str(PROGRAMS), "PYTHONUNBUFFERED": "1", "GRPC_VERBOSITY": "NONE"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environ, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def ends_by_itself(path: Path) -> bool:
    return path.stem == "graceful_stop"


def printed(path: Path, address: str, serving: tuple[str, ...] = (), calling: tuple[str, ...] = ()) -> tuple[str, str]:
    """Return what a client, and a server that ends by itself, printed, and what the client's launcher said."""
    with ExitStack() as stack:
        client = stack.enter_context(started(path, "client", address, *calling)) if path.stem == EARLY else None
        before = ""
        if client is not None:
            assert client.stdout is not None
            before = "".join(iter(client.stdout.readline, "waiting\n"))
        server = stack.enter_context(started(path, "server", address, *serving))
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n", server.communicate(timeout=30)
        client = client or stack.enter_context(started(path, "client", address, *calling))
        out, said = client.communicate(timeout=60)
        assert client.returncode == 0, said
        served = server.communicate(timeout=60)[0] if ends_by_itself(path) else ""
        return before + out + served, said


@pytest.fixture
def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("path", list(programs()))
def test_an_unmodified_program_prints_the_same_over_tcp_and_under_run(path: Path, free_address: str) -> None:
    expected, _ = printed(path, free_address)
    pair = f"{free_address}=shm://program_{secrets.token_hex(4)}"
    found, said = printed(path, free_address, ("--serve", pair), ("--map", pair))
    assert found == expected
    assert ", 0 over gRPC, by " in said


@pytest.mark.parametrize("kind", ["threads", "aio"])
def test_an_unmodified_program_at_a_unix_socket_does_too(kind: str, tmp_path: Path) -> None:
    path, address = PROGRAMS / kind / "hello_world.py", f"unix:{tmp_path / 'socket'}"
    expected, _ = printed(path, address)
    pair = f"{address}=shm://program_{secrets.token_hex(4)}"
    found, said = printed(path, address, ("--serve-only", "--serve", pair), ("--map", pair))
    assert found == expected == "Hello, you!\n"
    assert "1 call over shared memory, 0 over gRPC" in said
