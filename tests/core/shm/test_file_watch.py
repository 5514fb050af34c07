"""What a `FileWatch` is told of, and what it does where the kernel tells nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucky_transport.shm.files import file_watch
from lucky_transport.shm.files.file_watch import FileWatch
from lucky_transport.shm.files.liveness import Peer
from tests.support.waiting import until


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileWatch]:
    monkeypatch.setattr(file_watch, "_LONGEST_S", 0.05)
    with FileWatch() as made:
        yield made


def cut(file: Path) -> None:
    os.truncate(file, 0)


def replace(file: Path) -> None:
    file.with_suffix(".new").write_bytes(b"new")
    os.replace(file.with_suffix(".new"), file)


@pytest.mark.parametrize("change", [cut, os.unlink, replace])
def test_a_file_that_is_cut_removed_or_replaced_is_told(
    watch: FileWatch, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    file = tmp_path / "block"
    file.write_bytes(b"old")
    for _ in range(2):  # to ask again does no harm
        watch.add(file)
    change(file)
    assert watch.wait()
    assert not watch.wait()


@pytest.mark.parametrize("comes", [Path.touch, Path.mkdir])
def test_what_comes_into_a_folder_is_told_and_what_happens_to_it_then_is_not(
    watch: FileWatch, tmp_path: Path, comes: Callable[[Path], object]
) -> None:
    watch.add(tmp_path)
    comes(tmp_path / "one")
    assert watch.wait()
    (tmp_path / "one").chmod(0o700)
    assert not watch.wait()


def test_the_end_of_a_process_is_told_once(watch: FileWatch) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process, contextlib.closing(Peer(process.pid)) as peer:
        watch.add_process(peer.pidfd)
        assert not watch.wait()
        process.kill()
        until(watch.wait)
        assert not watch.wait()


def test_every_wait_returns_once_it_is_ended(watch: FileWatch) -> None:
    watch.end()
    assert watch.wait()
    assert watch.wait()


def test_a_file_that_is_not_there_can_be_asked_for(watch: FileWatch, tmp_path: Path) -> None:
    watch.add(tmp_path / "none")
    assert not watch.wait()


@pytest.mark.parametrize("refused", ["inotify_init1", "inotify_add_watch"])
def test_where_the_kernel_tells_nothing_something_may_always_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setattr(f"lucky_transport.shm.files.file_watch._libc.{refused}", lambda *arguments: -1)
    with FileWatch() as watch:
        watch.add(tmp_path)
        assert watch.wait()
