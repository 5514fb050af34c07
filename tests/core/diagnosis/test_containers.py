"""Checks of what containers share, against files that were made to look so, and in a real user namespace."""

from __future__ import annotations

import tempfile

import pytest

from lucky_transport.process import unique_name
from tests.support.boxes import PID, boxed, needs


def test_a_user_that_nobody_mapped_is_told_so() -> None:
    unmapped = ("--user",)
    needs(unmapped)
    with boxed(unmapped, "-m", "lucky_transport", "doctor") as box:
        line = box.line()
        while "has no id outside this user namespace" not in line:
            line = box.line()
        assert line.split()[:3] == ["user", "mapping", "fail"]


#: Prints what doctor says of the engines.
LOOK = """
from lucky_transport.diagnosis import containers
from lucky_transport.diagnosis.check import Roots
row = containers.engines(Roots())
print(f"{row.verdict}: {row.seen} | {row.remedy}")
"""

#: Serves the toy engine, with what a container has to itself mounted before, until it is killed.
SERVE = """
import subprocess, sys, time
name, *own = sys.argv[1:]
for place in own:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
from lucky_transport import api
with api.serve("toy", f"shm://{name}"):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("own", "what", "remedy"),
    [
        ("/dev/shm", "not in /dev/shm, but listening: ", "share /dev/shm"),
        ("", "out of reach for commands: ", "share the runtime directory"),
    ],
)
def test_an_engine_in_a_container_that_does_not_share_a_directory_is_named(
    own: str, what: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(PID)
    name = unique_name()
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        with boxed(PID, "-c", SERVE, name, own or runtime) as box:
            assert box.line() == "ready"
            with boxed(PID, "-c", LOOK) as other:
                said = other.line()
    assert said.startswith("warn: ")
    named = said.partition(what)[2]  # beside other engines of this machine
    assert name in named.partition(" | ")[0]
    assert remedy in said


def test_an_engine_in_a_container_that_shares_all_is_fine() -> None:
    needs(PID)
    name = unique_name()
    with boxed(PID, "-c", SERVE, name) as box:
        assert box.line() == "ready"
        with boxed(PID, "-c", LOOK) as other:
            said = other.line()
    assert "in other containers: " in said
    assert said.count(name) == 1
