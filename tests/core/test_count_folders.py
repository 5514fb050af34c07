"""The folder of a killed process is left over and can be removed; one in use, or another's, is left alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_transport.count_folders import left_over, new_folder, remove_folder, remove_left_over

_MAKER = "from lucky_transport.count_folders import new_folder; print(new_folder(), flush=True); input()"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def maker(folders: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has made a folder, whose name it prints."""
    command = [sys.executable, "-c", _MAKER]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"TMPDIR": str(folders)}
    )
    with process:
        yield process
        process.kill()


def test_the_folder_of_a_killed_process_is_left_over_and_removed(folders: Path, maker: subprocess.Popen[str]) -> None:
    assert maker.stdout is not None
    folder = Path(maker.stdout.readline().strip())
    Path(folder, "1.names").write_text("{}")
    assert (left_over(folders), remove_left_over(folders)) == ([], [])
    maker.kill()
    maker.wait()
    assert left_over(folders) == [folder]
    assert remove_left_over(folders) == [folder]
    assert list(folders.iterdir()) == []


def test_a_folder_of_this_process_is_in_use_until_it_is_removed(folders: Path) -> None:
    folder = new_folder()
    assert folder.parent == folders
    assert folder.stat().st_mode & 0o077 == 0
    assert left_over(folders) == []
    remove_folder(folder)
    assert list(folders.iterdir()) == []


def test_a_folder_whose_lock_is_being_taken_is_in_use(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Path]] = []
    lockf = os.lockf
    monkeypatch.setattr("os.lockf", lambda *given: (seen.append(left_over(folders)), lockf(*given)))
    remove_folder(new_folder())
    assert seen == [[]]


def test_where_no_file_can_be_locked_a_folder_is_made_and_nobody_takes_it_for_left_over(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("os.lockf", fails)
    folder = new_folder()
    assert remove_left_over(folders) == []
    remove_folder(folder)
    assert list(folders.iterdir()) == []


def test_a_folder_that_others_can_enter_or_that_no_maker_held_is_left_alone(folders: Path) -> None:
    planted, other = folders / "lucky-run-planted", folders / "lucky-run-other"
    for folder, mode in ((planted, 0o755), (other, 0o700)):
        folder.mkdir(mode)
    (planted / "maker.lock").touch(0o600)
    (folders / "lucky-run-link").symlink_to(other)
    assert remove_left_over(folders) == []
    assert len(list(folders.iterdir())) == 3
