"""CPU time of this process and of another one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lucky_transport_migration.bench.cpu import busiest_core, client_cpu_ns, engine_cpu_ns


def test_the_clock_of_our_own_pid_is_our_own_cpu_time() -> None:
    before = client_cpu_ns()
    found = engine_cpu_ns(os.getpid())
    after = client_cpu_ns()
    assert found is not None
    assert before <= found <= after


def test_another_process_has_used_cpu_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        used = engine_cpu_ns(process.pid)
        assert busiest_core(process.pid) in os.sched_getaffinity(0)
        process.communicate(b"\n")
    assert used is not None


@pytest.mark.exhaustive
def test_a_process_that_ended_has_no_clock() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert engine_cpu_ns(process.pid) is None
    assert busiest_core(process.pid) is None


def test_an_engine_in_this_process_has_no_clock_of_its_own() -> None:
    assert engine_cpu_ns(None) is None
