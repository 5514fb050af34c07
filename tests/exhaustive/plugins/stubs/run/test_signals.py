"""Signals under the launcher: each reaches the program once, whoever sends it to whom."""

import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_stubs.run.launch import end_like
from tests.plugins.stubs.run.conftest import Start
from tests.support.waiting import PATIENCE_S, until, until_none_left

pytest.importorskip("grpc")

PROGRAM = """
import os, signal, sys
if {apart}:
    os.setpgid(0, 0)
told = []
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)  # a signal that comes before the read is in the pipe; signal.pause() would miss it
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2):
    signal.signal(number, lambda number, _: told.append(1) or print(signal.Signals(number).name[3:], flush=True))
signal.signal(signal.SIGUSR1, lambda *_: (print("count", len(told), flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    os.read(woken, 1)
"""

#: Makes the terminal on stdin that of this session, and becomes the command.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start the launcher in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *options: str, apart: bool = False, code: str = PROGRAM, terminal: int | None = None
    ) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", code.format(apart=apart)]
        command = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", *options, "--", *program]
        if terminal is not None:
            command = [sys.executable, "-c", TAKE_TERMINAL, *command]  # a session's leader opens it, and it is its own
        pipes: dict[str, Any] = {"stdin": terminal, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        launcher = subprocess.Popen(command, env=environ, cwd=tmp_path, start_new_session=True, **pipes)
        started.append(launcher)
        assert _line(launcher) == "ready"
        return launcher

    yield start
    for launcher in started:
        launcher.kill()
        launcher.communicate(timeout=PATIENCE_S)


def _wait_until_taken(launcher: subprocess.Popen[str], number: signal.Signals) -> None:
    """Return when the launcher has no such signal pending; its main thread takes all of them."""

    def pending() -> list[str]:
        status = Path(f"/proc/{launcher.pid}/status").read_text(encoding="ascii")
        masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
        return [mask for mask in masks if int(mask, 16) >> (number - 1) & 1]

    until_none_left(pending)


def _line(launcher: subprocess.Popen[str]) -> str:
    assert launcher.stdout is not None
    return launcher.stdout.readline().strip()


def _end(launcher: subprocess.Popen[str], told: int) -> None:
    """End a program that was told so many signals."""
    os.kill(launcher.pid, signal.SIGUSR1)
    assert _line(launcher) == f"count {told}"
    assert launcher.wait(PATIENCE_S) in (0, int("--check" in launcher.args)), "1 where --check found something"  # type: ignore[operator]


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["plain", "watching"])
def test_a_signal_to_the_group_reaches_the_program_once(start: Start, options: tuple[str, ...]) -> None:
    launcher = start(*options)
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _wait_until_taken(launcher, signal.SIGTERM)  # the kernel makes one of two that wait
    os.kill(launcher.pid, signal.SIGTERM)  # passed on: when it has come, so had a second one of the first
    assert _line(launcher) == "TERM"
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _end(launcher, 3)


def test_a_signal_to_the_group_reaches_a_program_that_left_it(start: Start) -> None:
    launcher = start(apart=True)
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    _end(launcher, 1)


def test_several_signals_to_the_group_reach_the_program_once_each(start: Start) -> None:
    launcher = start()
    os.kill(launcher.pid, signal.SIGSTOP)  # so that both wait for it
    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        os.killpg(launcher.pid, number)
    assert {_line(launcher) for _ in numbers} == {"TERM", "HUP"}
    os.kill(launcher.pid, signal.SIGCONT)
    for number in numbers:
        _wait_until_taken(launcher, number)
    for number in numbers:
        os.kill(launcher.pid, number)
        assert _line(launcher) == number.name[3:]
    _end(launcher, 4)


@pytest.fixture
def at_terminal(start: Start) -> Callable[..., tuple[subprocess.Popen[str], int]]:
    """Start the launcher as the leader of a session at a terminal; returns it, and our end of the terminal."""

    def started(*options: str) -> tuple[subprocess.Popen[str], int]:
        ours, theirs = pty.openpty()
        launcher = start(*options, terminal=theirs)
        os.close(theirs)
        return launcher, ours

    return started


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["beneath the launcher", "in its place"])
def test_ctrl_c_at_a_terminal_reaches_the_program_once(at_terminal: Any, options: tuple[str, ...]) -> None:
    launcher, ours = at_terminal(*options)
    for count in (1, 2):
        os.write(ours, b"\x03")
        assert _line(launcher) == "INT"
        _wait_until_taken(launcher, signal.SIGINT)
        os.kill(launcher.pid, signal.SIGINT)  # another one, for the launcher alone
        assert _line(launcher) == "INT", f"after Ctrl-C {count}"
    _end(launcher, 4)
    os.close(ours)


def test_a_terminal_that_closes_hangs_up_the_program_too(at_terminal: Any) -> None:
    """The kernel tells the session's leader alone, which the launcher is under tmux, screen or ssh -t."""
    launcher, ours = at_terminal()
    os.close(ours)
    assert _line(launcher) == "HUP"
    _end(launcher, 1)


def test_signals_to_the_launcher_reach_the_program_once(start: Start) -> None:
    launcher = start()
    names = ("HUP", "INT", "QUIT", "USR2", "INT", "TERM")
    for name in names:
        launcher.send_signal(getattr(signal, f"SIG{name}"))
        assert _line(launcher) == name
    _end(launcher, len(names))


SLEEPS = "import os, time; print('ready', os.getpid(), sep=chr(10), flush=True); time.sleep(300)"


def test_a_program_that_dies_of_a_forwarded_signal_takes_the_launcher_with_it(start: Start) -> None:
    launcher = start(code=SLEEPS)
    launcher.terminate()
    assert launcher.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_second_ctrl_c_does_not_cost_the_report(start: Start) -> None:
    code = "print('ready', flush=True); import os, signal\n"
    code += "os.kill(os.getppid(), signal.SIGINT)\n" * 2 + "os.kill(os.getpid(), signal.SIGINT)"
    launcher = start(code=code)
    _, said = launcher.communicate(timeout=PATIENCE_S)
    assert "no gRPC call was counted" in said
    assert launcher.returncode == -signal.SIGINT


def test_whoever_kills_the_launcher_kills_the_program(start: Start, environ: dict[str, str]) -> None:
    launcher = start(code=SLEEPS)
    program = _line(launcher)
    launcher.kill()
    launcher.wait(PATIENCE_S)
    until(lambda: not _is_alive(program))
    [counts] = Path(environ["TMPDIR"]).iterdir()  # what was counted stays
    shutil.rmtree(counts)


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_where_a_signal_ends_nothing_the_status_is_a_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container is immune to its own signals."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: None)
    assert end_like(-signal.SIGKILL) == 128 + signal.SIGKILL
    assert sent == [(os.getpid(), signal.SIGKILL)]
