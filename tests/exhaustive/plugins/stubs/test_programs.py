"""Programs in the manner of gRPC's examples: unmodified on both sides, they print the same over TCP and switched.

They are forks of a Python that has imported grpc; those that are switched import `lucky_transport.auto` first. The
launcher runs the smallest of them: what it does is the same for all.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixtures.plugins_stubs import PROGRAMS, QUIET
from tests.support.forked_programs import Program, Programs
from tests.support.ports import free_port

pytest.importorskip("grpc")

#: What a program needs beside grpc.
NEEDED = {"channelz": "grpc_channelz", "health_checking": "grpc_health", "reflection": "grpc_reflection"}
#: Its client is there before its server; all others find one.
EARLY = "wait_for_ready"
#: Starts one end of a program, "server" or "client"; it is ended afterwards.
Start = Callable[[str], AbstractContextManager[Any]]


def programs() -> Iterator[Any]:
    """Yield each program, over threads and over asyncio."""
    for kind in ("threads", "aio"):
        for path in sorted((PROGRAMS / kind).glob("*.py")):
            package = NEEDED.get(path.stem, "grpc")
            absent = pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")
            yield pytest.param(path, id=f"{kind}-{path.stem}", marks=absent)


@contextmanager
def ended(program: Program | subprocess.Popen[str]) -> Iterator[Any]:
    """Have the program ended at the end."""
    try:
        yield program
    finally:
        program.send_signal(signal.SIGTERM)
        try:
            program.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            program.kill()
            raise


@contextmanager
def launched(path: Path, address: str, options: dict[str, tuple[str, ...]], end: str) -> Iterator[Any]:
    """Start one end of a program under `run`."""
    run = [sys.executable, "-m", "lucky_transport", "run", "--report", "-", "--transport", "shm", *options[end], "--"]
    environ = os.environ | QUIET | {"PYTHONPATH": str(PROGRAMS)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    command = [*run, sys.executable, str(path), end, address]
    with subprocess.Popen(command, env=environ, text=True, **pipes) as process, ended(process):
        yield process


@pytest.fixture
def over_grpc(forks: Programs) -> Callable[[Path, str], str]:
    """Return what a program prints over gRPC at this address."""

    def run(path: Path, address: str) -> str:
        @contextmanager
        def start(end: str) -> Iterator[Any]:
            with forks.start([str(path), end, address]) as program, ended(program):
                yield program

        return printed(path, start)[0]

    return run


@pytest.fixture
def switched(forks: Programs) -> Callable[[Path, str], tuple[str, str]]:
    """Return what a program prints whose ends are switched, and what its client says of its calls."""

    def run(path: Path, address: str) -> tuple[str, str]:
        pair = f"{address}=shm://program_{secrets.token_hex(4)}"
        settings = {"LUCKY_TRANSPORT": "shm", "LUCKY_RUN_REPORT": "-"}
        own = {"server": {"LUCKY_GRPC_SERVE": pair}, "client": {"LUCKY_GRPC_MAP": pair}}

        @contextmanager
        def start(end: str) -> Iterator[Any]:
            command = [str(path), end, address]
            with forks.start(command, first="lucky_transport.auto", **settings, **own[end]) as program, ended(program):
                yield program

        return printed(path, start)

    return run


def printed(path: Path, start: Start) -> tuple[str, str]:
    """Return what a client, and a server that ends by itself, printed, and what the client said beside that."""
    with ExitStack() as stack:
        client = stack.enter_context(start("client")) if path.stem == EARLY else None
        before = ""
        if client is not None:
            before = "".join(iter(client.stdout.readline, "waiting\n"))
        server = stack.enter_context(start("server"))
        assert server.stdout.readline() == "ready\n", server.communicate(timeout=30)
        client = client or stack.enter_context(start("client"))
        out, said = client.communicate(timeout=60)
        assert client.returncode == 0, said
        served = server.communicate(timeout=60)[0] if path.stem == "graceful_stop" else ""
        return before + out + served, said


@pytest.fixture
def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("path", list(programs()))
def test_an_unmodified_program_prints_the_same_over_tcp_and_switched(
    path: Path, free_address: str, over_grpc: Any, switched: Any
) -> None:
    expected = over_grpc(path, free_address)
    found, said = switched(path, free_address)
    assert found == expected
    assert ", 0 over gRPC, by " in said


@pytest.mark.parametrize("kind", ["threads", "aio"])
@pytest.mark.parametrize("at", ["tcp", "unix"])
def test_an_unmodified_program_prints_the_same_under_run(
    kind: str, at: str, free_address: str, tmp_path: Path, over_grpc: Any
) -> None:
    path = PROGRAMS / kind / "hello_world.py"
    address = free_address if at == "tcp" else f"unix:{tmp_path / 'socket'}"
    pair = f"{address}=shm://program_{secrets.token_hex(4)}"
    only = () if at == "tcp" else ("--serve-only",)
    options = {"server": (*only, "--serve", pair), "client": ("--map", pair)}
    found, said = printed(path, partial(launched, path, address, options))
    assert found == over_grpc(path, address) == "Hello, you!\n"
    assert "1 call over shared memory, 0 over gRPC" in said
