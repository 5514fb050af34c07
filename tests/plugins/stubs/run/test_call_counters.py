"""Counts that are exact, cost no lock and survive their process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport.call_counts import CallCounters, Calls, read

STEP = Calls("localhost:1", "shm://x", "", "/a.B/Step")
RESET = Calls("localhost:1", "", "the map does not name it", "/a.B/Reset")


def counts(folder: Path) -> list[dict[str, int]]:
    """What each process called: method -> how often."""
    return [{calls.method: calls.count for calls in process.calls} for process in read(folder)]


def test_a_method_is_counted_where_it_went(tmp_path: Path) -> None:
    counters = CallCounters(tmp_path)
    for _ in range(3):
        counters.counter(STEP).add()
    counters.counter(RESET).add()
    (process,) = read(tmp_path)
    assert process.pid == os.getpid()
    assert process.command == sys.orig_argv
    assert [(calls.target, calls.endpoint, calls.why, calls.method, calls.count) for calls in process.calls] == [
        ("localhost:1", "shm://x", "", "/a.B/Step", 3),
        ("localhost:1", "", "the map does not name it", "/a.B/Reset", 1),
    ]


def test_a_process_that_calls_nothing_leaves_nothing(tmp_path: Path) -> None:
    CallCounters(tmp_path).counter(STEP)
    assert list(tmp_path.iterdir()) == []


def test_no_count_is_lost_between_threads(tmp_path: Path) -> None:
    counter = CallCounters(tmp_path).counter(STEP)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [counter.add() for _ in range(20_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sum(calls.count for calls in read(tmp_path)[0].calls) == 80_000


def test_there_is_room_for_more_methods_than_a_page_holds(tmp_path: Path) -> None:
    counters = CallCounters(tmp_path)
    for number in range(1500):
        for _ in range(number % 3 + 1):
            counters.counter(Calls("localhost:1", "", "", f"/a.B/M{number}")).add()
    assert counts(tmp_path) == [{f"/a.B/M{number}": number % 3 + 1 for number in range(1500)}]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_counts_from_zero_for_itself(tmp_path: Path) -> None:
    counter = CallCounters(tmp_path).counter(STEP)
    counter.add()
    child = os.fork()
    if not child:
        counter.add()
        counter.add()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    counter.add()
    assert counts(tmp_path) == [{"/a.B/Step": 2}, {"/a.B/Step": 2}]
    assert {process.pid for process in read(tmp_path)} == {os.getpid(), child}


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"])
def test_counts_survive_however_a_process_ends(tmp_path: Path, end: str, python: Callable[..., list[str]]) -> None:
    code = f"""
import os, signal, sys
from pathlib import Path
from lucky_transport.call_counts import Calls, CallCounters
counter = CallCounters(Path(sys.argv[1])).counter(Calls("t", "", "", "/a.B/Step"))
for _ in range(1234):
    counter.add()
{end}
"""
    subprocess.run(python(code, tmp_path), timeout=30)
    assert counts(tmp_path) == [{"/a.B/Step": 1234}]


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    CallCounters(tmp_path).counter(STEP).add()
    (names,) = tmp_path.glob("*.names")
    with names.open("ab") as file:
        file.write(b'["localhost:1", "", "", "/a.B/Re')
    assert counts(tmp_path) == [{"/a.B/Step": 1}]


def test_calls_go_on_uncounted_when_the_folder_is_gone(tmp_path: Path) -> None:
    said: list[str] = []
    CallCounters(tmp_path / "gone", said.append).counter(STEP).add()
    assert not said


def test_calls_go_on_uncounted_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    counter = CallCounters(tmp_path / "file", said.append).counter(STEP)
    counter.add()
    counter.add()
    (only,) = said
    assert only.startswith("calls are not counted")


@pytest.mark.exhaustive
def test_a_process_that_is_killed_while_it_counts_is_read_whole(
    tmp_path: Path, python: Callable[..., list[str]]
) -> None:
    code = """
import sys
from pathlib import Path
from lucky_transport.call_counts import Calls, CallCounters
counter = CallCounters(Path(sys.argv[1])).counter(Calls("t", "", "", "/a.B/Step"))
counter.add()
print(flush=True)
while True:
    counter.add()
"""
    process = subprocess.Popen(python(code, tmp_path), stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    first = counts(tmp_path)[0]["/a.B/Step"]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert counts(tmp_path)[0]["/a.B/Step"] >= first >= 1
