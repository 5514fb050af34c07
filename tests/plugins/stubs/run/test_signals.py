"""Signals under the launcher: each reaches the program once, whoever sends it to whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.waiting import until_none_left

pytest.importorskip("grpc")

PROGRAM = """
import os, signal, sys
if {apart}:
    os.setpgid(0, 0)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1) or print("TERM", flush=True))
signal.signal(signal.SIGUSR1, lambda *_: (print("count", len(told), flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    signal.pause()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start the launcher in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str, apart: bool = False) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", PROGRAM.format(apart=apart)]
        command = [sys.executable, "-m", "lucky_transport", "run", "--transport", "grpc", *options, "--", *program]
        launcher = subprocess.Popen(
            command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(launcher)
        assert _line(launcher) == "ready"
        return launcher

    yield start
    for launcher in started:
        launcher.kill()
        launcher.wait(10)
        assert launcher.stdout is not None
        launcher.stdout.close()


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
    os.kill(launcher.pid, signal.SIGUSR1)
    assert _line(launcher) == "count 3"
    assert launcher.wait(20) in (0, 1), "1 where --check found something"


def test_a_signal_to_the_group_reaches_a_program_that_left_it(start: Start) -> None:
    launcher = start(apart=True)
    os.killpg(launcher.pid, signal.SIGTERM)
    assert _line(launcher) == "TERM"
    os.kill(launcher.pid, signal.SIGUSR1)
    assert _line(launcher) == "count 1"
    assert launcher.wait(20) == 0
