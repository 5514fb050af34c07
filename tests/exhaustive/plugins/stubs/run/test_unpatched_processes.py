"""Pythons that the switch cannot reach are found, with the reason; those it reaches are not."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_stubs.run import unpatched_processes
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcessDetector, reason
from tests.plugins.stubs.run.conftest import BOOTSTRAP, Launch, Python
from tests.support.waiting import PATIENCE_S

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
        (["-W", "error", "-Ec", "pass"], "-E"),
        (["-Werror", "-I"], "-I"),
        (["-S", "x.py"], ""),
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
    lookout = UnpatchedProcessDetector(os.getpid(), thorough=True)
    switched = sleeping(**dict(entry.split("=") for entry in SWITCHED))
    stranger = UnpatchedProcessDetector(switched.pid, thorough=True)
    escaped = sleeping("-I")
    try:
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


@pytest.mark.parametrize("last", ["_living", "_content"], ids=["listed", "read"])
def test_a_process_that_ends_while_it_is_looked_at_is_no_escape(monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    lookout = UnpatchedProcessDetector(os.getpid(), thorough=True)
    escaped = sleeping("-I")
    before = getattr(unpatched_processes, last)

    def then_it_ends(*arguments: Any) -> Any:
        found = before(*arguments)
        if arguments in ((), (escaped.pid, "maps")):
            escaped.communicate(timeout=PATIENCE_S)
        return found

    monkeypatch.setattr(unpatched_processes, last, then_it_ends)
    try:
        lookout.look()
        assert escaped.returncode == 0
        assert escaped.pid not in [escape.pid for escape in lookout.escapes]
    finally:
        escaped.communicate(timeout=PATIENCE_S)


def test_check_lists_the_children_that_escaped(launch: Launch, python: Python, tmp_path: Path) -> None:
    code = """
import subprocess, sys
child = "import time; time.sleep(1)"
children = [subprocess.Popen([sys.executable, *flags, "-c", child], env=environ)
            for flags, environ in ((["-I"], None), (["-E"], None), ([], {}), ([], None))]
print(*(one.pid for one in children))
for one in children:
    one.wait()
"""
    done = launch("--transport", "grpc", "--check", "--report", "calls.json", command=python(code))
    *escaped, switched = map(int, done.stdout.split())
    found = json.loads((tmp_path / "calls.json").read_text())["escapes"]
    assert sorted(one["pid"] for one in found) == sorted(escaped)
    assert switched not in [one["pid"] for one in found]
    assert done.stderr.count("was not switched") == 3


SLEEPS = "import time; time.sleep(1)"
#: A program that loads grpc past the switch.
PAST_IT = f"""
import importlib.util, sys
from importlib.machinery import PathFinder
spec = PathFinder.find_spec("grpc")
sys.modules["grpc"] = grpc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(grpc)
{SLEEPS}
"""
LACKS_FOLDER = "its PYTHONPATH lacks the launcher's folder"
PYTHON = [sys.executable, "-c"]


@pytest.mark.parametrize(
    ("options", "command", "why"),
    [
        (["--check", "--quiet"], ["sh", "-c", f"({sys.executable} -I -c '{SLEEPS}' &) ; sleep 1.2"], "started with -I"),
        (["--check"], [sys.executable, "-E", "-c", SLEEPS], "started with -E, which ignores the environment"),
        ([], [sys.executable, "-E", "-c", SLEEPS], None),
        ([], ["env", "-u", "PYTHONPATH", *PYTHON, f"import grpc; {SLEEPS}"], LACKS_FOLDER),
        ([], ["env", "PYTHONPATH=/else", *PYTHON, f"import grpc; {SLEEPS}"], LACKS_FOLDER),
        (
            [],
            ["env", "-u", "LUCKY_TRANSPORT", *PYTHON, f"import grpc; {SLEEPS}"],
            "its environment lacks LUCKY_TRANSPORT",
        ),
        ([], ["env", "-i", *PYTHON, f"import grpc; {SLEEPS}"], LACKS_FOLDER),
        ([], [*PYTHON, PAST_IT], "its grpc is not the one that `import grpc` finds"),
        (["--check"], [*PYTHON, f"import grpc, os; child = os.fork(); {SLEEPS}; child and os.waitpid(child, 0)"], None),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_process_that_was_not_switched_is_named_where_it_uses_grpc_or_check_asks(
    launch: Launch, options: list[str], command: list[str], why: str | None
) -> None:
    done = launch("--transport", "shm", "--map", "*=shm://x", *options, command=command)
    assert done.stderr.count("was not switched") == (why is not None)
    assert why is None or re.search(rf"pid \d+ \({sys.executable} .*\) was not switched: {why}", done.stderr, re.DOTALL)
    assert "env" not in command or "no process that can be switched imported grpc" in done.stderr


def test_a_program_with_grpcs_own_library_is_named() -> None:
    """A file of that name in its memory map stands for one that is linked to it."""
    code = """
import mmap, sys
with open(sys.argv[1], "r+b") as library:
    kept = mmap.mmap(library.fileno(), 0)
print(flush=True)
sys.stdin.read()
"""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "libgrpc++.so.1.51")
        library.write_bytes(b"x")
        command = [sys.executable, "-c", code, str(library)]
        lookout = UnpatchedProcessDetector(os.getpid())
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        lookout.look()
        process.communicate(timeout=10)
    (why,) = [one.why for one in lookout.escapes if one.pid == process.pid]
    assert why == "it uses gRPC's own library, and only Python's package grpc can be switched"
