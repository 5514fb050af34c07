"""Checks of shared memory, against directories that were made to look so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lucky_transport import native
from lucky_transport.diagnosis import shared_memory
from lucky_transport.diagnosis.check import CheckStatus, Roots
from lucky_transport.errors import MissingExtra, NoSpace
from lucky_transport.shm.segment import segment
from tests.support.waiting import PATIENCE_S

MIB = 1 << 20


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    tmp_path.chmod(0o1777)
    return Roots(shm=tmp_path)


def has_free(monkeypatch: pytest.MonkeyPatch, free: int, total: int) -> None:
    stats = SimpleNamespace(f_blocks=total // 4096, f_bavail=free // 4096, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: stats)


@pytest.mark.parametrize(
    ("free_mib", "verdict", "says"),
    [
        (0, CheckStatus.FAIL, "the smallest segment needs"),
        (2, CheckStatus.WARN, "4096 envs of 100 observations and 12 actions need"),
        (64, CheckStatus.OK, "64 MiB free of 64 MiB"),
    ],
)
def test_the_free_space_is_measured_against_real_batches(
    monkeypatch: pytest.MonkeyPatch, roots: Roots, free_mib: int, verdict: CheckStatus, says: str
) -> None:
    has_free(monkeypatch, free_mib * MIB, 64 * MIB)
    row = shared_memory.space(roots)
    assert row.verdict is verdict
    assert says in row.seen
    assert ("--shm-size" in row.remedy) == (verdict is not CheckStatus.OK)


def test_a_missing_directory_is_a_failure(tmp_path: Path) -> None:
    row = shared_memory.space(Roots(shm=tmp_path / "nowhere"))
    assert row.verdict is CheckStatus.FAIL
    assert "mount a tmpfs" in row.remedy


@pytest.mark.parametrize(
    ("mode", "verdict"), [(0o1777, CheckStatus.OK), (0o700, CheckStatus.OK), (0o777, CheckStatus.WARN)]
)
def test_a_directory_where_strangers_may_remove_files_is_warned_of(
    tmp_path: Path, mode: int, verdict: CheckStatus
) -> None:
    tmp_path.chmod(mode)
    row = shared_memory.permissions(Roots(shm=tmp_path))
    assert row.verdict is verdict
    assert f"{mode:04o}" in row.seen


def test_a_directory_this_user_cannot_write_is_a_failure(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    row = shared_memory.permissions(roots)
    assert row.verdict is CheckStatus.FAIL
    assert f"user id {os.getuid()}" in row.seen


def test_the_trial_segment_is_made_and_leaves_nothing(roots: Roots) -> None:
    row = shared_memory.trial_segment(roots)
    assert row.verdict is CheckStatus.OK
    assert list(roots.shm.iterdir()) == []


def test_a_segment_that_cannot_be_made_is_a_failure_with_the_remedy(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise NoSpace("a segment of 5 bytes does not fit", hint="use fewer envs")

    monkeypatch.setattr(segment, "create", refuse)
    row = shared_memory.trial_segment(roots)
    assert (row.verdict, row.seen, row.remedy) == (
        CheckStatus.FAIL,
        "a segment of 5 bytes does not fit",
        "use fewer envs",
    )


def test_a_trial_in_a_directory_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    row = shared_memory.trial_segment(Roots(shm=tmp_path / "nowhere"))
    assert row.verdict is CheckStatus.FAIL
    assert "nowhere" in row.seen


ENGINE = """
import os, sys
from pathlib import Path
from lucky_transport.errors import MissingExtra
from lucky_transport.shm.segment import segment
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
spec = BatchSpec("toy", 1, ArraySpec(shape=(1,)), ArraySpec(shape=(1,)))
made = segment.create(sys.argv[2], spec, directory=Path(sys.argv[1]))
made.publish_ready()
print("ready", flush=True)
if sys.argv[3] == "stays":
    sys.stdin.read()
os._exit(9)
"""


@pytest.mark.exhaustive
def test_only_segments_of_dead_engines_are_stale_and_removed(roots: Roots) -> None:
    assert shared_memory.stale_segments(roots).seen == "none among 0 on this host"
    for name in ("dead_1", "dead_2"):
        subprocess.run([sys.executable, "-c", ENGINE, str(roots.shm), name, "dies"], timeout=PATIENCE_S, check=False)
    command = [sys.executable, "-c", ENGINE, str(roots.shm), "alive", "stays"]
    living = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert living.stdout is not None
        living.stdout.readline()
        row = shared_memory.stale_segments(roots)
        assert row.verdict is CheckStatus.WARN
        assert row.seen.startswith("dead_1, dead_2 (")
        removed = shared_memory.remove_stale_segments(roots)
        assert [one.name for one in removed] == ["dead_1", "dead_2"]
        assert shared_memory.stale_segments(roots).seen == "none among 1 on this host"
        assert (roots.shm / "alive").exists()
    finally:
        living.communicate(timeout=PATIENCE_S)


# --- the native module ---


def test_the_native_module_is_reported_with_its_version() -> None:
    row = shared_memory.native_module(Roots())
    assert (row.verdict, row.seen) == (CheckStatus.OK, f"version {native.VERSION}, loaded")


def test_without_the_native_module_there_is_a_failure_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    why, remedy = "the native module cannot be loaded (no: such file)", "install a C compiler"
    monkeypatch.setattr(native, "problem", lambda: MissingExtra(why, hint=remedy))
    row = shared_memory.native_module(Roots())
    assert (row.verdict, row.seen, row.remedy) == (CheckStatus.FAIL, why, remedy)
