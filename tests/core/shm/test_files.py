"""Whether a peer lives: processes, lock files, and watched files."""

import contextlib
import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucky_transport.shm.files import file_watch, lockfile
from lucky_transport.shm.files.file_watch import FileWatch
from lucky_transport.shm.files.liveness import Peer, start_time
from tests.support.command import python
from tests.support.waiting import in_a_child, until


def test_this_process_lives_and_has_a_start_time() -> None:
    me = Peer(os.getpid(), start_time(os.getpid()))
    assert me.alive
    me.close()
    me.close()
    assert not me.alive
    assert not Peer(os.getpid(), start_time(os.getpid()) + 1).alive, "its pid was given to another process"


def test_a_killed_process_is_dead_even_before_it_is_reaped() -> None:
    child = subprocess.Popen(["sleep", "60"])
    peer = Peer(child.pid, start_time(child.pid))
    assert peer.alive
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not peer.alive
    child.wait()
    peer.close()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**64 - 1, -(2**63)])
def test_what_no_process_can_be_numbered_is_dead(pid: int) -> None:
    """A pid comes out of memory that a peer writes; pidfd_open raises OverflowError for most of these."""
    peer = Peer(pid, 1)
    assert not peer.alive
    peer.close()
    assert start_time(pid) == 0


#: Says what it gets of a lock file, and who holds it.
ACQUIRE = """
import sys
from lucky_transport.shm.files import lockfile
lock = lockfile.acquire(sys.argv[1], lockfile.ENGINE)
print(lock is not None, lockfile.holder(sys.argv[1], lockfile.ENGINE))
"""


def _acquired_elsewhere(path: str) -> tuple[bool, int]:
    """Return whether another process, which has ended, got it, and who held it then."""
    got, pid = python("-c", ACQUIRE, path, check=True).stdout.split()
    return got == "True", int(pid)


@pytest.mark.exhaustive
def test_a_place_that_a_process_has_is_given_to_no_other_until_it_is_released(tmp_path: Path) -> None:
    path = f"{tmp_path}/a.lock"
    lock = lockfile.acquire(path, lockfile.ENGINE)
    assert lock is not None
    assert not lockfile.acquire(path, lockfile.ENGINE)  # not even this process takes it twice
    assert in_a_child(lambda: lockfile.holder(path, lockfile.ENGINE) == os.getppid())
    assert _acquired_elsewhere(path) == (False, os.getpid())  # a forked child releases nothing
    lock.release()
    assert _acquired_elsewhere(path)[0]
    assert lockfile.holder(path, lockfile.ENGINE) is None  # with a process ends what it held
    last = lockfile.acquire(path, lockfile.ENGINE)
    assert last is not None
    last.release(unlink=True)
    assert not os.path.exists(path)


def test_engines_are_the_files_whose_lock_is_held(tmp_path: Path) -> None:
    locks = [lockfile.acquire(f"{tmp_path}/{name}.lock", lockfile.ENGINE) for name in ("held", "released", "alone")]
    for name in ("held", "released"):
        (tmp_path / name).touch()
    assert locks[1] is not None
    locks[1].release()
    assert lockfile.engines(tmp_path) == ["held"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of a fork beside threads: that is what this tests
def test_a_child_forked_while_a_thread_is_inside_can_use_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread does not exist in the child, so it never leaves there."""
    inside, go_on = threading.Event(), threading.Event()
    lockf = fcntl.lockf

    def slow(*arguments: int) -> None:
        inside.set()
        assert go_on.wait(30)
        lockf(*arguments)

    monkeypatch.setattr(lockfile.fcntl, "lockf", slow)
    locks: list[lockfile.Lock | None] = []
    thread = threading.Thread(target=lambda: locks.append(lockfile.acquire(f"{tmp_path}/a.lock", lockfile.ENGINE)))
    thread.start()
    assert inside.wait(30)

    def locks_here() -> bool:
        signal.alarm(20)
        monkeypatch.undo()
        got = lockfile.acquire(f"{tmp_path}/b.lock", lockfile.ENGINE)
        return got is not None and lockfile.holder(f"{tmp_path}/a.lock", 0) is None

    try:
        assert in_a_child(locks_here)
    finally:
        go_on.set()
        thread.join()
        for lock in locks:
            assert lock
            lock.release(unlink=True)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileWatch]:
    monkeypatch.setattr(file_watch, "_LONGEST_S", 0.05)
    with FileWatch() as made:
        yield made


def replace(file: Path) -> None:
    file.with_suffix(".new").write_bytes(b"new")
    os.replace(file.with_suffix(".new"), file)


@pytest.mark.parametrize("change", [lambda file: os.truncate(file, 0), os.unlink, replace])
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
