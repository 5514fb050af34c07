"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lucky_transport_migration.atomic_write import write_atomically


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


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def full(descriptor: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
