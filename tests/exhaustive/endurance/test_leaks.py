"""Short soaks and a few kills; `tests.endurance.leaks` and `kills` run the long ones."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Iterator

import pytest
from click.testing import CliRunner

from lucky_transport import api
from lucky_transport.transport import Transport
from tests.endurance import kills, leaks, workloads
from tests.endurance.kill_run import KillRun
from tests.endurance.leaks import available, find_leaks
from tests.support.resources import Resources

kept: list[Transport] = []


def leaking(endpoint: str) -> Generator[None]:
    """Never close a connection."""
    kept.append(api.open_transport(endpoint))
    while True:
        yield


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    while kept:
        kept.pop().close()


def test_nothing_stays_of_what_is_opened_and_left() -> None:
    """In a process of its own: other tests of this one leave descriptors to the collector."""
    command = [sys.executable, "-m", "tests.endurance.leaks", "--minutes", "0.05", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = dict(re.findall(r"^(\w+): (\d+) rounds$", done.stdout, re.MULTILINE))
    assert set(rounds) == set(available())
    assert sum(map(int, rounds.values())) >= len(rounds) / 2  # a busy machine may not get to each in that time
    counts = re.findall(r"^    start (\d+) descriptors.*\n    peak  (\d+) descriptors", done.stdout, re.MULTILINE)
    assert any(int(start) < int(peak) for start, peak in counts)


def test_what_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workloads.WORKLOADS, "calls", f"{__name__}:leaking")
    monkeypatch.setattr(leaks, "WARM_UP", 0)
    monkeypatch.setattr(leaks, "PATIENCE_S", 0.1)
    calls, *_ = find_leaks(["calls"], 0.1, seed=1)
    assert calls.is_left
    assert not calls.failure
    assert calls.end.descriptors > calls.start.descriptors


def test_the_soak_command_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    little, more = Resources(9, 2, 1, 3), Resources(10, 2, 1, 3)
    monkeypatch.setattr(leaks, "find_leaks", lambda *_: [leaks.LeakReport("calls", 7, little, more, little)])
    result = CliRunner().invoke(leaks.main, ["--minutes", "0.01", "--kind", "calls", "--seed", "1"])
    assert result.exit_code == 0
    assert "calls: 7 rounds\n    start 9 descriptors, 2 threads, 1 mappings, 3 files\n    peak  10 d" in result.output
    monkeypatch.setattr(leaks, "find_leaks", lambda *_: [leaks.LeakReport("calls", 7, little, more, more)])
    result = CliRunner().invoke(leaks.main, ["--minutes", "0.01", "--kind", "calls"])
    assert result.exit_code == 1
    assert "not released, or failed: calls" in result.output


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_random_moments_are_noticed_and_leave_nothing(seed: int) -> None:
    run = KillRun(available(), seed)
    try:
        run.play(6)
    finally:
        run.close()
    assert run.found.failures == []
    assert sum(map(len, run.found.noticed_s.values())) == 6


def test_a_process_that_stands_still_for_a_moment_fails_nothing() -> None:
    run = KillRun(["steps", "calls"], seed=1, deeds=["stop"])
    try:
        run.play(4)
    finally:
        run.close()
    assert run.found.failures == []
    assert run.found.stops == 4


_PENDULUMS = f"{sys.executable} -m lucky_transport serve pendulum --num-envs 4 --endpoint shm://{{name}}"


def test_an_engine_of_a_command_line_is_killed_and_stopped_too() -> None:
    run = KillRun(["steps"], seed=2, deeds=["kill", "stop"], commands={workloads.ENGINE: _PENDULUMS})
    try:
        run.play(3)
    finally:
        run.close()
    assert run.found.failures == []


def test_the_kills_command_says_what_failed() -> None:
    result = CliRunner().invoke(kills.main, ["--kills", "2", "--kind", "calls", "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert "nothing is left, and nothing hung" in result.output
