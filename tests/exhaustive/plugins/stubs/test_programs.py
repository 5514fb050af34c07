"""Programs in the manner of gRPC's examples: unmodified on both sides, they print the same over TCP and switched.

They are forks of a Python that has imported grpc; those that are switched import `lucky_transport.auto` first. The
launcher runs the smallest of them: what it does is the same for all.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.stubs.conftest import PROGRAMS, QUIET
from tests.support.forked_programs import Program, Programs
from tests.support.resources import free_port

pytest.importorskip("grpc")

PROGRAMS_OF = {
    "threads": ("graceful_stop", "hello_world", "interceptors", "local_credentials", "multiprocessing_clients"),
    "aio": ("graceful_stop", "hello_world"),
}
#: Starts one end of a program, "server" or "client"; it is ended afterwards.
Start = Callable[[str], AbstractContextManager[Any]]


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


@pytest.fixture
def printed(forks: Programs) -> Callable[..., tuple[str, str]]:
    """Return what a program prints, and what its client says beside that; of_end: the variables of either end."""

    def run(kind: str, name: str, address: str, first: str = "", **of_end: dict[str, str]) -> tuple[str, str]:
        @contextmanager
        def start(end: str) -> Iterator[Any]:
            command = [str(PROGRAMS / f"{kind}.py"), name, end, address]
            with forks.start(command, first=first, **of_end.get(end, {})) as program, ended(program):
                yield program

        return printed_by(start, name)

    return run


def printed_by(start: Start, name: str) -> tuple[str, str]:
    """Return what a client, and a server that ends by itself, printed, and what the client said beside that."""
    with ExitStack() as stack:
        server = stack.enter_context(start("server"))
        assert server.stdout.readline() == "ready\n", server.communicate(timeout=30)
        client = stack.enter_context(start("client"))
        out, said = client.communicate(timeout=60)
        assert client.returncode == 0, said
        served = server.communicate(timeout=60)[0] if name == "graceful_stop" else ""
        return out + served, said


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in PROGRAMS_OF.items() for name in names],
)
def test_an_unmodified_program_prints_the_same_over_tcp_and_switched(kind: str, name: str, printed: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    expected, _ = printed(kind, name, address)
    assert expected
    pair, settings = f"{address}=shm://program_{secrets.token_hex(4)}", {"LUCKY_TRANSPORT": "shm"}
    server, client = {"LUCKY_GRPC_SERVE": pair}, {"LUCKY_GRPC_MAP": pair, "LUCKY_RUN_REPORT": "-"}
    found, said = printed(
        kind, name, address, "lucky_transport.auto", server=settings | server, client=settings | client
    )
    assert found == expected
    assert ", 0 over gRPC, by " in said


@pytest.mark.parametrize("kind", PROGRAMS_OF)
@pytest.mark.parametrize("at", ["tcp", "unix"])
def test_an_unmodified_program_prints_the_same_under_run(kind: str, at: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}" if at == "tcp" else f"unix:{tmp_path / 'socket'}"
    pair = f"{address}=shm://program_{secrets.token_hex(4)}"
    only = () if at == "tcp" else ("--serve-only",)
    options = {"server": (*only, "--serve", pair), "client": ("--map", pair)}
    environ = os.environ | QUIET | {"PYTHONPATH": str(PROGRAMS)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}

    @contextmanager
    def launched(end: str) -> Iterator[Any]:
        run = [sys.executable, "-m", "lucky_transport", "run", "--report", "-", "--transport", "shm", *options[end]]
        command = [*run, "--", sys.executable, str(PROGRAMS / f"{kind}.py"), "hello_world", end, address]
        with subprocess.Popen(command, env=environ, text=True, **pipes) as process, ended(process):
            yield process

    found, said = printed_by(launched, "hello_world")
    assert found == "Hello, you!\n"
    assert "1 call over shared memory, 0 over gRPC" in said
