"""A file's new content comes in one step, and what a killed writer left goes with the next one."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from lucky_transport.atomic_write import write_atomically


def test_a_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"old")
    file.chmod(0o751)
    link.symlink_to(file)
    write_atomically(link, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777, link.is_symlink()) == (b"new", 0o751, True)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"new")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "a").stat().st_mode & 0o777) == (b"new", 0o644)


def test_a_failed_write_leaves_the_old_content_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "fchmod", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        if not (child := os.fork()):
            monkeypatch.setattr(os, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            write_atomically(tmp_path / name, b"half")
            os._exit(0)
        os.waitpid(child, 0)
    (tmp_path / ".a.swp").touch()  # an editor's
    write_atomically(tmp_path / "a", b"new")
    found = sorted(os.listdir(tmp_path))
    assert (found[0], found[1][:3], found[2:]) == (".a.swp", ".b.", ["a"])
    write_atomically(tmp_path / "b", b"new")
    assert sorted(os.listdir(tmp_path)) == [".a.swp", "a", "b"]


@pytest.mark.parametrize("function", ["mkstemp", "replace"])
def test_a_writer_that_lives_is_left_alone(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = os if function == "replace" else tempfile
    call = getattr(module, function)

    def beside_another_writer(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(module, function, call)
        made = call(*arguments, **options) if module is tempfile else None
        write_atomically(tmp_path / "a", b"fast")
        return made or call(*arguments, **options)

    monkeypatch.setattr(module, function, beside_another_writer)
    write_atomically(tmp_path / "a", b"slow")
    assert (os.listdir(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"slow")
