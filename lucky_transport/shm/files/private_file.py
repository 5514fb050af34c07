"""Opens every file that is mapped or locked, and removes it.

/dev/shm is writable for every user: whatever lies under a name of ours may have been planted. A file is used only when
it is a regular file of this user with mode 0600; the check is made on the open descriptor, so nothing can be swapped in
after it. Anything else is refused with its path, kind, owner and mode, and stays where it is.
"""

from __future__ import annotations

import contextlib
import os
import stat
from enum import Enum
from pathlib import Path

from lucky_transport.errors import NotReachable, SegmentError, TransportError
from lucky_transport.found_file import describe_user
from lucky_transport.limits import limit_reached
from lucky_transport.uninterrupted import uninterrupted

_MODE = 0o600
#: O_NONBLOCK: opening a FIFO would otherwise wait for its other end. It has no effect on regular files.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KINDS = {
    stat.S_IFREG: "regular file",
    stat.S_IFIFO: "FIFO",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class Make(Enum):
    """Whether `open_private` makes the file. NEVER: it must be there. IF_ABSENT. ALWAYS: it must not be there."""

    NEVER = "never"
    IF_ABSENT = "if absent"
    ALWAYS = "always"


def open_private(
    path: str | os.PathLike[str],
    *,
    make: Make = Make.NEVER,
    writes: bool = True,
    any_mode: bool = False,
    backend: str = "shm",
) -> int:
    """Return a descriptor of the file, which is a regular file of this user with mode 0600.

    any_mode: accept another mode, for files that a foreign program makes. A file that is made has mode 0600 whatever
    the umask is.

    Raises FileNotFoundError with Make.NEVER, FileExistsError with Make.ALWAYS, NotReachable when this process may open
    no more files, SegmentError for any other file and when the system refuses.
    """
    access = _FLAGS | (os.O_RDWR if writes else os.O_RDONLY)
    while True:
        try:
            if make is not Make.ALWAYS:
                [fd] = uninterrupted(os.open, path, access)
                try:
                    _check(fd, path, any_mode, backend)
                except BaseException:
                    os.close(fd)
                    raise
                return fd
        except FileNotFoundError:
            if make is Make.NEVER:
                raise
        except OSError as error:
            raise _refusal(path, error, any_mode, backend) from error
        try:
            [fd] = uninterrupted(os.open, path, access | os.O_CREAT | os.O_EXCL, _MODE)
        except FileExistsError:
            if make is Make.ALWAYS:
                raise
            continue  # it was made between the two calls
        except OSError as error:
            raise _refusal(path, error, any_mode, backend) from error
        try:
            os.fchmod(fd, _MODE)
        except BaseException:
            os.close(fd)
            raise
        return fd


def remove_private(path: str | os.PathLike[str]) -> bool:
    """Remove the file, or link, when it belongs to this user and is no directory; return whether it was removed.

    In a directory with the sticky bit no other user can put something else in its place meanwhile.
    """
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            os.unlink(path)
            return True
    return False


def _is_private_file(status: os.stat_result, *, any_mode: bool = False) -> bool:
    """True for a regular file of this user with mode 0600, or with any mode."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and (any_mode or stat.S_IMODE(status.st_mode) == _MODE)
    )


def _check(fd: int, path: str | os.PathLike[str], any_mode: bool, backend: str) -> None:
    """Raise SegmentError unless it is a file as `open_private` says."""
    status = os.fstat(fd)
    if not _is_private_file(status, any_mode=any_mode):
        raise _foreign(path, status, any_mode, backend)


def _refusal(path: str | os.PathLike[str], error: OSError, any_mode: bool, backend: str) -> TransportError:
    """Return what to raise when `open` failed: what lies there if it is not ours, else the system's reason."""
    reached, remedy = limit_reached(error)
    if reached:
        return NotReachable(f"{Path(path)} cannot be opened: {reached}", backend=backend, hint=remedy)
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if not _is_private_file(status, any_mode=any_mode):
            return _foreign(path, status, any_mode, backend)
    return SegmentError(
        f"{Path(path)} cannot be opened: {error.strerror}",
        backend=backend,
        hint="check the rights of its directory",
    )


def _foreign(path: str | os.PathLike[str], status: os.stat_result, any_mode: bool, backend: str) -> SegmentError:
    uid = os.geteuid()
    own = status.st_uid == uid
    wanted = f"a regular file of {describe_user(uid)}" + ("" if any_mode else f" with mode {_MODE:04o}")
    return SegmentError(
        f"{Path(path)} is a {_KINDS.get(stat.S_IFMT(status.st_mode), 'file of an unknown kind')} of "
        f"{describe_user(status.st_uid)} with mode {stat.S_IMODE(status.st_mode):04o}, expected {wanted}",
        backend=backend,
        hint=f"use another name, or {'' if own else 'have its owner '}remove that file",
    )
