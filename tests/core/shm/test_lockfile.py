"""Lock files across threads and forks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from lucky_transport.shm.files import lockfile

#: Says what it gets of a lock file, and who holds it.
ACQUIRE = """
import sys
from lucky_transport.shm.files import lockfile
lock = lockfile.acquire(sys.argv[1], lockfile.ENGINE)
print(lock is not None, lockfile.holder(sys.argv[1], lockfile.ENGINE))
"""


def _acquired_elsewhere(path: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", ACQUIRE, path], capture_output=True, text=True, check=True)
    got, pid = done.stdout.split()
    return got == "True", int(pid)


@pytest.mark.exhaustive
def test_a_place_that_a_process_has_is_given_to_no_other_until_it_is_released(tmp_path: Path) -> None:
    path = f"{tmp_path}/a.lock"
    lock = lockfile.acquire(path, lockfile.ENGINE)
    assert lock is not None
    assert _acquired_elsewhere(path) == (False, os.getpid())
    lock.release()
    assert _acquired_elsewhere(path)[0]


def test_engines_are_the_files_whose_lock_is_held(tmp_path: Path) -> None:
    locks = [lockfile.acquire(f"{tmp_path}/{name}.lock", lockfile.ENGINE) for name in ("held", "released", "alone")]
    for name in ("held", "released"):
        (tmp_path / name).touch()
    assert locks[1] is not None
    locks[1].release()
    assert lockfile.engines(tmp_path) == ["held"]


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
    with warnings.catch_warnings():  # newer Pythons warn of a fork beside threads: that is what this tests
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            signal.alarm(20)
            monkeypatch.undo()
            if (
                lockfile.acquire(f"{tmp_path}/b.lock", lockfile.ENGINE)
                and lockfile.holder(f"{tmp_path}/a.lock", 0) is None
            ):
                status = 0
        os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        go_on.set()
        thread.join()
        for lock in locks:
            assert lock
            lock.release(unlink=True)
