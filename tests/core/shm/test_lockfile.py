"""Lock files across threads and forks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
import warnings
from pathlib import Path

import pytest

from lucky_transport.shm.files import lockfile


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
