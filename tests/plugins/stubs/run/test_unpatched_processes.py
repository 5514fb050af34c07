"""Pythons that the switch cannot reach are found, with the reason; those it reaches are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport_stubs.run.activation import BOOTSTRAP
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcessDetector, reason

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
Python = Callable[..., list[str]]

SWITCHED = [f"PYTHONPATH={BOOTSTRAP}:/else", "LUCKY_TRANSPORT=shm"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["x.py"], ""),
        (["x.py", "-I"], ""),
        (["-c", "pass", "-I"], ""),
        (["-m", "x", "-E"], ""),
        (["-W", "-I", "x.py"], ""),
        (["-Xdev", "-X", "-E", "x.py"], ""),
        (["--check-hash-based-pycs=always", "x.py"], ""),
        (["-"], ""),
        (["-Bs", "x.py"], ""),
        (["-I", "x.py"], "-I"),
        (["-BsE", "x.py"], "-E"),
        (["-W", "error", "-Sc", "pass"], "-S"),
        (["-Werror", "-S"], "-S"),
        (["--check-hash-based-pycs=always", "-I", "x.py"], "-I"),
    ],
)
def test_flags_of_the_interpreter_are_told_from_those_of_the_program(arguments: list[str], found: str) -> None:
    why = reason(["python", *arguments], SWITCHED)
    assert why.startswith(f"started with {found}") if found else why == ""


def test_an_environment_without_the_switch_is_a_reason() -> None:
    assert reason(["python", "x.py"], []) == "its PYTHONPATH lacks the launcher's folder"
    assert reason(["python", "x.py"], ["PYTHONPATH=/else", "LUCKY_TRANSPORT=shm"]).startswith("its PYTHONPATH")
    assert reason(["python", "x.py"], SWITCHED[:1]) == "its environment lacks LUCKY_TRANSPORT"


def sleeping(*flags: str, **variables: str) -> subprocess.Popen[bytes]:
    """A Python that has started and waits for its stdin to be closed."""
    command = [sys.executable, *flags, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_only_descendants_are_looked_at_and_each_is_found_once() -> None:
    escaped = sleeping("-I")
    switched = sleeping(**dict(entry.split("=") for entry in SWITCHED))
    try:
        lookout, stranger = UnpatchedProcessDetector(os.getpid()), UnpatchedProcessDetector(switched.pid)
        for _ in range(2):
            lookout.look()
            stranger.look()
        assert escaped.pid in [escape.pid for escape in lookout.escapes]
        assert switched.pid not in [escape.pid for escape in lookout.escapes]
        assert stranger.escapes == []
        assert len({(one.pid, *one.command) for one in lookout.escapes}) == len(lookout.escapes)
    finally:
        escaped.communicate(timeout=10)
        switched.communicate(timeout=10)


def test_a_process_that_is_gone_is_no_escape() -> None:
    lookout = UnpatchedProcessDetector(2**22 - 1)
    lookout.look()
    assert lookout.escapes == []


def test_check_lists_the_children_that_escaped(launch: Launch, python: Python, tmp_path: Path) -> None:
    code = """
import subprocess, sys
child = "import time; time.sleep(1)"
children = [subprocess.Popen([sys.executable, *flags, "-c", child], env=environ)
            for flags, environ in ((["-I"], None), (["-E"], None), (["-S"], None), ([], {}), ([], None))]
print(*(one.pid for one in children))
for one in children:
    one.wait()
"""
    done = launch("--transport", "grpc", "--check", "--report", "calls.json", command=python(code))
    *escaped, switched = map(int, done.stdout.split())
    found = json.loads((tmp_path / "calls.json").read_text())["escapes"]
    assert sorted(one["pid"] for one in found) == sorted(escaped)
    assert switched not in [one["pid"] for one in found]
    assert done.stderr.count("escaped the switch") == 4


def test_check_sees_through_shells_and_orphans(launch: Launch) -> None:
    script = f"({sys.executable} -I -c 'import time; time.sleep(1)' &) ; sleep 1.2"
    done = launch("--transport", "grpc", "--check", "--quiet", command=["sh", "-c", script])
    assert done.stderr.count("escaped the switch") == 1


def test_a_program_that_is_itself_out_of_reach_is_found_too(launch: Launch) -> None:
    done = launch(
        "--transport", "grpc", "--check", command=[sys.executable, "-E", "-c", "import time; time.sleep(0.5)"]
    )
    assert "started with -E, which ignores the environment, escaped the switch" in done.stderr


def test_without_check_nobody_looks(launch: Launch) -> None:
    done = launch("--transport", "grpc", command=[sys.executable, "-E", "-c", "import time; time.sleep(0.2)"])
    assert "escaped" not in done.stderr
