"""Work that is shared by processes: the order of the results, errors that name a file, and no process left behind."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import TransportError
from lucky_transport_migration.scan import scanner
from lucky_transport_migration.scan.processes import map_files, usable_cores
from tests.support.command import python

NUMBERS = [(f"{number}.py", number) for number in range(40)]


def late_when_early(_: str, number: int) -> tuple[int, int]:
    """Return the number and the process; what is asked for first takes longest."""
    time.sleep(0.02 if number < 8 else 0)
    return number, os.getpid()


def fail_at_19(_: str, number: int) -> int:
    if number == 19:
        raise ValueError("no good")
    return number


def die_at_19(_: str, number: int) -> int:
    if number == 19:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_files(processes: int) -> None:
    found = list(map_files(late_when_early, NUMBERS, processes))
    assert [number for number, _ in found] == list(range(40))
    assert (os.getpid() in {process for _, process in found}) == (processes == 1)


def test_few_files_are_no_work_for_other_processes() -> None:
    assert {process for _, process in map_files(late_when_early, NUMBERS[:8], 8)} == {os.getpid()}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_names_the_file_that_caused_it(processes: int) -> None:
    with pytest.raises(TransportError, match=r"19\.py cannot be scanned: ValueError: no good"):
        list(map_files(fail_at_19, NUMBERS, processes))
    assert multiprocessing.active_children() == []


def test_a_process_that_is_killed_ends_the_work_with_an_error() -> None:
    with pytest.raises(TransportError, match="ended from outside; scan again"):
        list(map_files(die_at_19, NUMBERS, 2))
    assert multiprocessing.active_children() == []


def test_there_is_a_core_to_work_with_and_a_bound() -> None:
    assert 1 <= usable_cores() <= 16


PARENT = """
import os, signal
from tests.exhaustive.migration.scan.test_processes import NUMBERS, late_when_early
from lucky_transport_migration.scan.processes import map_files
if __name__ == "__main__":
    for _, process in map_files(late_when_early, NUMBERS, 2):
        print(process, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(__file__).parents[4]
    done = python(str(script), cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    # Both ends of its output are held by the workers too: run() returns only when the last of them has ended.
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.strip().isdigit()


def test_a_scan_finds_the_same_however_many_processes_share_it(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["import grpc\n", "x = 1\n", "import grpc\nprint 'python 2'\n", "from a_pb2_grpc import AStub\nAStub(c)\n"]
    root = tree({f"{number % 3}/{number}.py": texts[number % 4] for number in range(60)} | {"a_pb2_grpc.py": ""})
    monkeypatch.setattr(scanner, "_BYTES_WORTH_A_PROCESS", 1)
    names: list[str] = []
    assert scanner.scan(root, names.append, processes=2) == scanner.scan(root)
    assert names == [scanner.name_in(root, path) for path in scanner.files_of(root)]


def test_a_file_without_a_trace_is_never_parsed(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(scanner, "places_in", lambda source: parsed.append(source) or [])
    scanner.scan(tree({"a.py": "import os\n", "b.py": "import grpc\n"}))
    assert parsed == [b"import grpc\n"]
