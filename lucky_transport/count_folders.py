"""The folders in which the processes of a program count their calls (`call_counts`), one for each run or relay.

The process that makes a folder holds a lock in it and removes it at its end. So what a killed process left is told from
what is in use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from lucky_transport.errors import ConfigError, SegmentError

#: A process without a launcher makes the same, in lucky_transport_stubs/run/bootstrap/sitecustomize.py.
_PREFIX, _FREE, _LOCK = "lucky-run-", "free.lock", "maker.lock"

#: Descriptors of the locks that this process holds until it removes the folder, or ends. Not `shm.files.lockfile`: a
#: launcher has no other use for what that imports.
_locks: dict[Path, int] = {}


def new_folder() -> Path:
    """Return a new folder for counters, which only this user can enter; raises ConfigError where there is no room."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _FREE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"calls cannot be counted: {error}", hint="set TMPDIR to a folder of yours") from error
    try:
        os.lockf(lock, os.F_TLOCK, 1)
        os.rename(folder / _FREE, folder / _LOCK)  # what has this name is locked: others take it for left over
        _locks[folder] = lock
    except OSError:  # a file system without locks: without the file nobody takes the folder for left over
        os.close(lock)
        os.unlink(folder / _FREE)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove the folder, as far as processes that go on counting leave it alone."""
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _locks.pop(folder, None)) is not None:
        os.close(lock)


def left_over(directory: Path) -> list[Path]:
    """Return the folders of this user in `directory` whose maker has ended."""
    return [folder for folder in sorted(directory.glob(f"{_PREFIX}*")) if _is_left_over(folder)]


def _is_left_over(folder: Path) -> bool:
    from lucky_transport.shm.files import lockfile
    from lucky_transport.shm.files.socket_path import is_private_directory

    with contextlib.suppress(OSError, SegmentError):
        lock = folder / _LOCK
        return is_private_directory(folder) and lock.exists() and lockfile.holder(str(lock), lockfile.ENGINE) is None
    return False


def remove_left_over(directory: Path) -> list[Path]:
    """Remove the folders that `left_over` returns, and return them."""
    found = left_over(directory)
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    return found
