"""What /proc tells, from files of the tests' own and from this process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lucky_transport.diagnosis.servers import connections_to
from lucky_transport.process import python_command
from lucky_transport_migration.top import processes


def command(proc: Path, *arguments: str, pid: int = 7) -> int:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes("\0".join(arguments).encode() + b"\0")
    return pid


SERVE = ("serve", "toy", "--endpoint", "shm://demo", "--num-envs", "4", "--endpoint=grpc://127.0.0.1:0")


@pytest.mark.parametrize(
    "program",
    [
        ("/opt/venv/bin/lucky-transport",),
        ("/usr/bin/python3", "/opt/venv/bin/lucky-transport"),
        ("python3.13", "-m", "lucky_transport", "-v"),
        tuple(python_command("lucky_transport")),
        ("python3", "-X", "dev", "-Werror", *python_command("lucky_transport")[-2:]),
    ],
    ids=["command", "script", "module", "child", "child with flags"],
)
def test_the_endpoints_of_a_serve_are_found(tmp_path: Path, program: tuple[str, ...]) -> None:
    pid = command(tmp_path, *program, *SERVE)
    assert processes.served_endpoints(pid, tmp_path) == ["shm://demo", "grpc://127.0.0.1:0"]
    assert processes.serving_pids(tmp_path) == [pid]


@pytest.mark.parametrize(
    "arguments",
    [
        ("timeout", "5", "lucky-transport", *SERVE),
        ("/usr/bin/python3", "train.py", *SERVE),
        ("lucky-transport", "inspect", "--endpoint", "serve"),
        (),
    ],
    ids=["wrapper", "another program", "another command", "kernel thread"],
)
def test_what_serves_nothing_is_no_engine(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert processes.served_endpoints(command(tmp_path, *arguments), tmp_path) == []
    assert processes.serving_pids(tmp_path) == []


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    assert processes.read_process(7, tmp_path) is None
    assert processes.listening_ports(7, tmp_path) == []


def test_the_sockets_of_a_network_namespace_are_read_once_for_all_its_processes() -> None:
    listening: dict[str, dict[str, int]] = {}
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        for pid in (os.getppid(), os.getpid()):
            ports = processes.listening_ports(pid, listening=listening)
        assert tcp.getsockname()[1] in ports
    assert len(listening) == 1
    here = os.readlink(f"/proc/{os.getpid()}/ns/net")
    assert processes.listening_ports(os.getpid(), listening={here: {}}) == []


def test_this_process_is_read_with_its_ports_and_connections(tmp_path: Path) -> None:
    found = processes.read_process(os.getpid())
    assert found is not None
    assert found.pid == os.getpid()
    assert found.rss_bytes > 1 << 20
    path = str(tmp_path / "s.sock")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        assert tcp.getsockname()[1] in processes.listening_ports(os.getpid())
        unix.bind(path)
        unix.listen()
        before = connections_to()
        assert before is not None
        assert before[path] == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            accepted, _ = unix.accept()
            with accepted:
                after = connections_to()
                assert after is not None
                assert after[path] == 1
