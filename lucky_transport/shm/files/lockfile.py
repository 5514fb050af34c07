"""The owners of a segment: POSIX locks on a lock file beside it.

Byte 0 is the engine's, byte 1 the client's: who holds it has the place. Beside it each side holds a byte of its own, at
a random offset that the header names: it tells a side from the next one that has its place.

The kernel releases a process's locks when it ends or executes another program, however that comes about, and no forked
child inherits them, whatever descriptors it keeps. Locks know no namespaces: they are seen wherever the file is, also
where the holder's pid means nothing. POSIX locks never conflict within one process; there the table of this module
decides. A look (F_OFD_GETLK) sees those of its own process too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, SegmentError
from lucky_transport.fork import on_child
from lucky_transport.shm.files.private_file import Make, open_private, remove_private
from lucky_transport.shm.timing import NATIVE
from lucky_transport.uninterrupted import uninterrupted

#: Where segments and their lock files lie.
DIRECTORY = Path("/dev/shm")

ENGINE, CLIENT = 0, 1

#: A byte of one's own lies beyond those of the places, and below the largest offset of a file (2^63 - 1).
_OWN_FIRST, _OWN_BYTES = 1 << 16, 7

# struct flock on 64-bit Linux: l_type, l_whence, padding, l_start, l_len, l_pid
_FLOCK = struct.Struct("hhxxxxqqixxxx")
#: From Linux 3.15 on; the `fcntl` module names it from Python 3.13 on.
_F_OFD_GETLK = 36


def lock_path_of(path: Path) -> str:
    """Return the lock file beside a segment."""
    return f"{path}.lock"


class _LockFile:
    """An open lock file. It is kept open while a byte is held or watched: a process loses its POSIX locks when it
    closes any descriptor of the file.
    """

    __slots__ = ("fd", "held", "path", "watches")

    def __init__(self, path: str, fd: int) -> None:
        self.path, self.fd = path, fd
        self.held: dict[int, None] = {}
        self.watches = 0

    def lock(self, byte: int) -> bool:
        if byte in self.held:
            return False
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            self.held[byte] = None
        except OSError:
            return False
        except BaseException:  # a signal handler's
            self.unlock(byte)
            raise
        return True

    def unlock(self, byte: int) -> None:
        fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, byte)
        if byte in self.held:  # no call: no signal handler runs from here to the caller's next one
            del self.held[byte]

    def holder(self, byte: int) -> int | None:
        answer = fcntl.fcntl(self.fd, _F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
        kind, _, _, _, pid = _FLOCK.unpack(answer)
        return None if kind == fcntl.F_UNLCK else max(pid, 0)


_guard = threading.RLock()
#: By device and inode: a path may get another file while the old one is still held.
_files: dict[tuple[int, int], _LockFile] = {}


class Watch:
    """Looks whether another side holds its byte. Made for the file that is at `path` now, if there is one."""

    __slots__ = ("_byte", "_file")

    def __init__(self, path: str, byte: int) -> None:
        self._byte = byte
        with _guard:
            self._file = _find(path)
            if self._file is not None:
                self._file.watches += 1

    @property
    def held(self) -> bool:
        """True while some process holds the byte; False once closed, and in a forked child."""
        with _guard:
            file = self._file
            return file is not None and file.fd >= 0 and file.holder(self._byte) is not None

    @property
    def place(self) -> tuple[int, int]:
        """Descriptor of the lock file, open until `close`, and the byte: the native module looks too.

        (-1, 0) where there is no file.
        """
        return (-1, 0) if self._file is None else (self._file.fd, self._byte)

    def close(self) -> None:
        """Look no more; idempotent."""
        with _guard:
            file, self._file = self._file, None
            if file is not None and file.fd >= 0:
                file.watches -= 1
                _close_if_unused(file)


class Lock:
    """A place that this process holds, until `release` or the end of this object or of the process.

    own: the byte that it alone holds beside it.
    """

    __slots__ = ("_file", "_has_place", "_place", "own")

    def __init__(self, file: _LockFile, place: int) -> None:
        self._file, self._place, self._has_place, self.own = file, place, False, _any_byte()
        while not file.lock(self.own):
            self.own = _any_byte()
        self._has_place = True

    def release(self, *, unlink: bool = False) -> None:
        """Give the place back; with `unlink` the file is removed first. Idempotent; no effect in a forked child."""
        with _guard:
            file = self._file
            if file.fd < 0 or self.own not in file.held:
                return
            if unlink and _files.get(_identity(file.path)) is file:
                remove_private(file.path)
            if self._has_place:
                file.unlock(self._place)
                self._has_place = False
            file.unlock(self.own)  # last: a release that a signal handler interrupts is made again
            _close_if_unused(file)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing() and hasattr(self, "own"):
            self.release()


def acquire(path: str, place: int) -> Lock | None:
    """Take `place` of the lock file (made when absent); None when another process, or this one, has it.

    Raises SegmentError for a file that is not this user's alone.
    """
    with _guard:
        for _ in range(8):  # the file may be unlinked by its last owner between our open and our lock
            file = _find(path) or _opened(path, Make.IF_ABSENT)
            locked = False
            try:
                locked = file.lock(place)
                if not locked:
                    return None
                if _files.get(_identity(path)) is file:
                    [lock] = uninterrupted(Lock, file, place)
                    locked = False  # it unlocks the place
                    return lock
            finally:
                if locked:
                    file.unlock(place)
                _close_if_unused(file)
        raise NotReachable(f"lock file {path} keeps vanishing", hint="is another engine starting and stopping there?")


def acquire_engine(path: str) -> Lock | None:
    """Take the engine's place, as an engine does; None when another engine keeps it.

    A process that removes what a dead engine left has the place for a moment; that is waited for.
    """
    deadline = Deadline(NATIVE["TAKE_OVER_NS"] / 1e9)
    while (lock := acquire(path, ENGINE)) is None and not deadline.expired:
        time.sleep(NATIVE["POLL_NS"] / 1e9)
    return lock


def engines(directory: Path) -> list[str]:
    """Return the files in `directory` whose lock file an engine of this user holds, by name."""
    found: list[str] = []
    for lock in sorted(directory.glob("*.lock")):
        with contextlib.suppress(OSError, SegmentError):
            if lock.with_suffix("").is_file() and holder(str(lock), ENGINE) is not None:
                found.append(lock.stem)
    return found


def holder(path: str, byte: int) -> int | None:
    """Return the pid that holds `byte`, None for none; 0 for a process that has no pid here (see `process_name`).

    Raises SegmentError for a lock file that is not ours.
    """
    with _guard:
        file = _find(path)
        if file is None:
            return None
        pid = file.holder(byte)
        _close_if_unused(file)
        return pid


def forget_after_fork() -> None:
    """In a forked child: the parent's locks are not ours; forget them (closing the copies cannot drop them).

    The guard is made anew: a thread of the parent may have held it, and there is no such thread in the child.
    """
    global _guard
    _guard = threading.RLock()
    for file in _files.values():
        with contextlib.suppress(OSError):
            os.close(file.fd)
        file.fd = -1
    _files.clear()


on_child(forget_after_fork)


def _any_byte() -> int:
    return _OWN_FIRST + int.from_bytes(os.urandom(_OWN_BYTES), "little")


def _identity(path: str) -> tuple[int, int]:
    """Return device and inode of what is at `path`, (0, 0) for nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


def _find(path: str) -> _LockFile | None:
    """Return the file at `path`, opened unless it is open; None when there is none. Raises SegmentError."""
    known = _files.get(_identity(path))  # looked up without opening: closing a second descriptor would drop our locks
    if known is not None:
        return known
    try:
        return _opened(path, Make.NEVER)
    except FileNotFoundError:
        return None


def _opened(path: str, make: Make) -> _LockFile:
    fd = open_private(path, make=make)
    status = os.fstat(fd)
    return _files.setdefault((status.st_dev, status.st_ino), _LockFile(path, fd))


def _close_if_unused(file: _LockFile) -> None:
    if not file.held and not file.watches and file.fd >= 0:
        status = os.fstat(file.fd)
        del _files[status.st_dev, status.st_ino]
        os.close(file.fd)
        file.fd = -1
