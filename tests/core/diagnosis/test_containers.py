"""Checks of what containers share, against files that were made to look so, and in a real user namespace."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from lucky_transport.diagnosis import containers
from lucky_transport.diagnosis.check import CheckStatus, Roots
from lucky_transport.process import unique_name
from tests.support.boxes import PID, boxed, needs


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "lucky_transport"


def mapped(tmp_path: Path, text: str) -> Roots:
    """Return roots with that uid_map."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "uid_map").write_text(text)
    return Roots(proc=tmp_path)


@pytest.mark.parametrize(
    ("rows", "verdict", "says"),
    [
        ("         0          0 4294967295\n", CheckStatus.OK, "user id 5, no user namespace"),
        ("0 1000 1\n1 100000 65536\n", CheckStatus.OK, "user id 5 is 100004 outside this user namespace"),
        ("0 1000 1\n", CheckStatus.FAIL, "user id 5 has no id outside"),
        ("", CheckStatus.FAIL, "user id 5 has no id outside"),
    ],
)
def test_it_says_who_we_are_outside_of_the_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: str, verdict: CheckStatus, says: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 5)
    row = containers.user_mapping(mapped(tmp_path, rows))
    assert row.verdict is verdict
    assert says in row.seen
    assert ("--userns=keep-id" in row.remedy) == (verdict is CheckStatus.FAIL)


def test_a_user_that_nobody_mapped_is_told_so() -> None:
    unmapped = ("--user",)
    needs(unmapped)
    with boxed(unmapped, "-m", "lucky_transport", "doctor") as box:
        line = box.line()
        while "has no id outside this user namespace" not in line:
            line = box.line()
        assert line.split()[:3] == ["user", "mapping", "fail"]


def test_a_private_runtime_directory_is_named(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    row = containers.runtime_directory(Roots())
    assert row.verdict is CheckStatus.OK
    assert str(runtime) in row.seen


def test_a_runtime_directory_that_others_may_enter_is_refused_with_the_remedy(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o755)
    row = containers.runtime_directory(Roots())
    assert row.verdict is CheckStatus.FAIL
    assert "mode 0755: only your own, mode 0700, is used" in row.seen
    assert f"chmod 700 {runtime}" in row.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_segments_of_other_users_are_out_of_reach(tmp_path: Path) -> None:
    for path in (tmp_path / "theirs", tmp_path / "theirs.lock", tmp_path / "editor.lock"):
        path.touch(0o600)
        os.chown(path, 4711, 4711)
    os.mkfifo(tmp_path / "pipe")
    os.chown(tmp_path / "pipe", 4711, 4711)
    (tmp_path / "pipe.lock").touch()
    row = containers.engines(Roots(shm=tmp_path))
    assert row.verdict is CheckStatus.WARN
    assert row.seen == "0 living engines; of other users, so out of reach: theirs (user id 4711)"
    assert "--user" in row.remedy


def test_no_engine_is_fine(tmp_path: Path) -> None:
    row = containers.engines(Roots(shm=tmp_path))
    assert (row.verdict, row.seen) == (CheckStatus.OK, "0 living engines")


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
