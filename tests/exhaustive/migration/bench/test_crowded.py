"""Pairs that have not all CPUs for themselves: beside co-runners, and on one CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.plan import Case
from lucky_transport_migration.bench.rows import row_of
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suites.steps import IDLE, plan_of
from lucky_transport_migration.bench.workloads.crowded import co_runners, on_one_core
from lucky_transport_migration.bench.workloads.steps import prepare

SIZES = {"obs_size": 4, "act_size": 2}
ASKED = "import os; print(len(os.sched_getaffinity(0)))"


@pytest.fixture(scope="module", autouse=True)
def engines_are_forks() -> None:
    """They are none here: a fork runs on the CPUs of what it is forked from."""


def prepared(*paths: str, quick: bool = True) -> PreparedSuite:
    return prepare(plan_of(IDLE, paths, (1,), ("adaptive",), SIZES, rounds=1, quick=quick, co_runners=(1,)))


def one_of(cases: PreparedSuite, path: str, what: str) -> Case:
    return next(case for case in cases.cases if (case.path, case.what) == (path, what) and case.wait != "spin")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_co_runners_compute_while_the_block_runs_and_are_gone_after_it() -> None:
    before = children()
    with co_runners(2, 0.01) as lost:
        assert len(children() - before) == 2
        assert lost()["loss_percent"] <= 100
    assert children() == before


def test_co_runners_end_with_the_process_that_started_them() -> None:
    program = (
        "import os\nfrom lucky_transport_migration.bench.workloads.crowded import co_runners\n"
        "with co_runners(1, 0.001):\n"
        "    print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        (pid,) = process.stdout.readline().split()
        # the pipe that it inherited has no writer any more when it has ended
        assert process.stdout.read() == b""
    assert process.returncode == -9
    assert int(pid) > 0


def test_every_thread_and_every_child_is_on_one_cpu_within_the_block_and_on_all_after_it() -> None:
    usable, go, seen = os.sched_getaffinity(0), threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: (go.wait(), seen.append(len(os.sched_getaffinity(0)))))
    thread.start()
    with on_one_core():
        go.set()
        thread.join()
        child = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, check=True)
        assert (len(os.sched_getaffinity(0)), seen, child.stdout) == (1, [1], b"1\n")
    assert os.sched_getaffinity(0) == usable


@pytest.mark.parametrize("path", ["shm", "limit"])
def test_a_row_beside_a_co_runner_says_what_both_sides_used_and_what_it_lost(path: str) -> None:
    suite = prepared("shm")
    case = one_of(suite, path, "beside 1 co-runner")
    found = suite.measure(case)
    if not found:
        pytest.skip(suite.notes[-1])
    row = row_of(suite.suite, case.cells[0], list(found.values()), {})
    assert row["co_runners"] == 1
    assert row["title"] == "1 env, one exchange, beside 1 co-runner"
    assert row["loss_percent"] <= 100
    assert None not in row["cpu_s"].values()  # how much is a matter of the kernel's clocks, and of test_cpu.py


def test_a_pair_on_one_cpu_is_seen_on_one_core() -> None:
    suite = prepared("shm", quick=False)
    case = one_of(suite, "shm", "one core")
    (found,) = suite.measure(case).values()
    assert isinstance(found, Measurement)
    assert found.same_core
    assert suite.suite.title_of(case.cells[0]) == "1 env, one exchange, all on one CPU"
