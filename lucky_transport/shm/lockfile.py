"""The owners of a segment: POSIX locks on a lock file beside it.

Byte 0 is the engine's, byte 1 the client's. The kernel releases them when their process ends, however it ends. POSIX
locks never conflict within one process; there the table of this module decides.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading

from lucky_transport.errors import NotReachable
from lucky_transport.fork import on_child
from lucky_transport.shm.private_file import Make, open_private, remove_private

__all__ = ["CLIENT", "ENGINE", "acquire", "forget_after_fork", "holder", "release"]

ENGINE, CLIENT = 0, 1

# struct flock on 64-bit Linux: l_type, l_whence, padding, l_start, l_len, l_pid
_FLOCK = struct.Struct("hhxxxxqqixxxx")

_guard = threading.RLock()
#: Kept open while a byte is held: a process loses its POSIX locks when it closes any descriptor of the file.
_open: dict[str, int] = {}
_held: dict[str, set[int]] = {}


def acquire(path: str, byte: int) -> bool:
    """Take `byte` of the lock file (made when absent); False when another process, or this one, has it.

    Raises SegmentError for a file that is not this user's alone.
    """
    with _guard:
        if byte in _held.get(path, ()):
            return False
        for _ in range(8):  # the file may be unlinked by its last owner between our open and our lock
            fd = _descriptor(path)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except OSError:
                _drop_if_unused(path)
                return False
            if _same_file(path, fd):
                _held.setdefault(path, set()).add(byte)
                return True
            _drop(path)
        raise NotReachable(f"lock file {path} keeps vanishing", hint="is another engine starting and stopping there?")


def release(path: str, byte: int, *, unlink: bool = False) -> None:
    """Give `byte` back; with `unlink` the file is removed first. No effect when this process does not hold it."""
    with _guard:
        if byte not in _held.get(path, ()):
            return
        if unlink:
            remove_private(path)
        fcntl.lockf(_open[path], fcntl.LOCK_UN, 1, byte)
        _held[path].discard(byte)
        _drop_if_unused(path)


def holder(path: str, byte: int) -> int:
    """Return the pid that holds `byte`, 0 for none. Raises SegmentError for a lock file that is not ours."""
    with _guard:
        if byte in _held.get(path, ()):
            return os.getpid()
        try:
            fd = _descriptor(path, may_make=False)
        except FileNotFoundError:
            return 0
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, request)
        _drop_if_unused(path)
        kind, _, _, _, pid = _FLOCK.unpack(answer)
        return 0 if kind == fcntl.F_UNLCK else pid


def forget_after_fork() -> None:
    """In a forked child: the parent's locks are not ours; forget them (closing the copies cannot drop them).

    The guard is made anew: a thread of the parent may have held it, and there is no such thread in the child.
    """
    global _guard
    _guard = threading.RLock()
    for fd in _open.values():
        with contextlib.suppress(OSError):
            os.close(fd)
    _open.clear()
    _held.clear()


on_child(forget_after_fork)


def _descriptor(path: str, *, may_make: bool = True) -> int:
    if path not in _open:
        _open[path] = open_private(path, make=Make.IF_ABSENT if may_make else Make.NEVER)
    return _open[path]


def _same_file(path: str, fd: int) -> bool:
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _drop_if_unused(path: str) -> None:
    if not _held.get(path):
        _drop(path)


def _drop(path: str) -> None:
    fd = _open.pop(path, None)
    _held.pop(path, None)
    if fd is not None:
        os.close(fd)
