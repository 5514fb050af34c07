"""What `run` tells, and where: a stream that is no terminal belongs to the program, unless notices are asked for."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

#: Makes a channel that stays on gRPC, in a child too, and prints to both streams.
PROGRAM = """
import subprocess, sys
import grpc

channel = grpc.insecure_channel("localhost:50051")
print("out")
print("err", file=sys.stderr)
if len(sys.argv) > 1:
    sys.exit(subprocess.run([sys.executable, *sys.argv]).returncode if sys.argv.pop() == "twice" else 0)
"""
OPTIONS = ("--transport", "auto", "--endpoint", "shm://nobody_serves_this")


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path), "twice"]


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch, notices: None) -> None:
    monkeypatch.delenv("LUCKY_RUN_REPORT")


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("quiet", [(), ("--quiet",), ("--check",)])
def test_streams_that_are_no_terminals_hold_what_the_program_wrote(
    launch: Launch, program: list[str], quiet: tuple[str, ...]
) -> None:
    done = launch(*OPTIONS, *quiet, command=program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\nout\n", "err\nerr\n")


@pytest.mark.usefixtures("unasked")
def test_a_file_that_was_asked_for_holds_the_report_and_the_streams_none(
    launch: Launch, program: list[str], tmp_path: Path
) -> None:
    done = launch(*OPTIONS, "--report", "calls.json", command=program)
    assert (done.stdout, done.stderr) == ("out\nout\n", "err\nerr\n")
    assert len(json.loads((tmp_path / "calls.json").read_text())["reached"]) == 2


@pytest.mark.usefixtures("unasked")
def test_asked_for_on_stderr_they_stand_there(launch: Launch, program: list[str], tmp_path: Path) -> None:
    done = launch(*OPTIONS, "--report", "-", command=program)
    assert done.stdout == "out\nout\n"
    assert done.stderr.count("localhost:50051 stays on gRPC: no server or engine at shm://nobody_serves_this") == 2
    assert done.stderr.endswith("no gRPC call was counted; 2 processes that can be switched imported grpc\n")
    assert not (tmp_path / "-").exists()


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("module", ["", "import lucky_transport.auto"])
def test_without_the_launcher_the_same_holds(environ: dict[str, str], tmp_path: Path, module: str) -> None:
    code = f"{module}\nimport grpc\ngrpc.insecure_channel('localhost:50051')"
    bootstrap = Path(__file__).parents[5] / "plugins/lucky_transport_stubs/run/bootstrap"
    switched = environ | {"LUCKY_TRANSPORT": "auto", "LUCKY_ENDPOINT": "shm://nobody_serves_this"}
    switched |= {} if module else {"PYTHONPATH": str(bootstrap)}
    for asked in "", "-":
        done = subprocess.run(
            [sys.executable, "-c", code], env=switched | {"LUCKY_RUN_REPORT": asked}, capture_output=True, text=True
        )
        assert (done.returncode, "stays on gRPC" in done.stderr) == (0, bool(asked))
        assert done.stdout == ""
        assert asked or done.stderr == ""


def test_where_stderr_takes_nothing_the_exit_status_is_still_the_programs(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "lucky_transport", "run", *OPTIONS, "--report", "-", "--", "sh", "-c", "exit 3"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(command, env=environ, stderr=full, check=False).returncode == 3


@pytest.mark.usefixtures("unasked")
def test_the_lines_to_paste_ask_as_the_launcher_was_asked(launch: Launch) -> None:
    assert "LUCKY_RUN_REPORT" not in launch(*OPTIONS, "--print-environment", command=["true"]).stdout
    asked = launch(*OPTIONS, "--report", "-", "--print-environment", command=["true"])
    assert "export LUCKY_RUN_REPORT=-\n" in asked.stdout


@pytest.mark.usefixtures("unasked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_terminal_gets_them(environ: dict[str, str], program: list[str]) -> None:
    pid, terminal = pty.fork()
    if not pid:
        command = [sys.executable, "-m", "lucky_transport", "run", *OPTIONS, "--", *program]
        os.execve(sys.executable, command, environ)
    text = b""
    try:
        while part := os.read(terminal, 1000):
            text += part
    except OSError:  # how a terminal ends
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert text.count(b"stays on gRPC: no server or engine at") == 2
    assert b"no gRPC call was counted; 2 processes" in text
