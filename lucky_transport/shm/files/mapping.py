"""Files of shared memory: made, mapped, and safe to use when another process truncates them.

Any process of this user may cut a named file short, and touching a page beyond a file's end is SIGBUS, in any code that
holds a view. Here such an access gives zeros: the whole mapping is replaced by zero pages and is
`is_lost` from then on (`_truncation.h`). A side that waits for its peer, or has just copied what the peer wrote, looks
at that; the cut is a SegmentError then. Views read zeros and never crash.
"""

from __future__ import annotations

import errno
import os
from mmap import mmap
from pathlib import Path

from lucky_transport import native
from lucky_transport.errors import NoSpace, SegmentError
from lucky_transport.limits import limit_reached
from lucky_transport.shm.files.private_file import Make, open_private

#: What is left of a file system to other programs, at most an eighth of it: they die by SIGBUS where it is full.
MARGIN = 64 << 20


class Mapping(mmap):
    """Made by `map_file`. path: of the file, for errors."""

    path: str

    @property
    def is_lost(self) -> bool:
        """True when a page was touched that is beyond the file's end: the memory is zeros, and shared no more."""
        return native.lost(self)

    @property
    def is_cut(self) -> bool:
        """True when it is lost, or will be: the file is shorter than the mapping now."""
        return self.is_lost or self.size() < len(self)

    def check(self) -> None:
        """Raise SegmentError when it is cut."""
        if self.is_cut:
            raise self.error()

    def has_room(self, more: int) -> bool:
        """True where the file system has `more` bytes beyond `MARGIN`; a file without a name is on none."""
        try:
            stats = os.statvfs(os.path.join("/", self.path))
        except OSError:
            return True
        margin = min(MARGIN, stats.f_blocks * stats.f_frsize // 8)
        return not stats.f_blocks or stats.f_bavail * stats.f_frsize >= more + margin

    def error(self) -> SegmentError:
        """Return what to raise when it is cut."""
        return SegmentError(
            f"{self.path} was truncated to less than its {len(self)} bytes while they were in use",
            backend="shm",
            hint="another process of this user did that; start the engine again and connect again",
        )

    def close(self) -> None:
        """Unmap it; idempotent. Raises BufferError while there are views."""
        if self.closed:
            return
        lost = self.is_lost
        native.unguard(self)
        try:
            super().close()
        except BufferError:
            native.guard(self, lost)
            raise

    def __del__(self) -> None:
        if not self.closed:
            native.unguard(self)  # before the addresses are reused


def map_file(fd: int, size: int, path: str | os.PathLike[str]) -> Mapping:
    """Map `size` bytes of the file, shared and writable, and guard them. Raises OSError."""
    guard = native.guard  # where there is none, there is no mapping either
    mapping = Mapping(fd, size)
    mapping.path = os.fspath(path)
    guard(mapping)
    return mapping


def map_private(path: Path, least_bytes: int, too_short: str, hint: str) -> Mapping:
    """Map all of the file.

    Raises FileNotFoundError when it is absent or still empty, and SegmentError for a file that is not this user's alone
    or has less than `least_bytes` (`too_short` completes "N bytes").
    """
    fd = open_private(path)
    try:
        size = os.fstat(fd).st_size
        if not size:
            raise FileNotFoundError(errno.ENOENT, "it is empty", str(path))
        if size < least_bytes:
            raise SegmentError(f"{path}: {size} bytes{too_short}", backend="shm", hint=hint)
        return map_file(fd, size, path)
    finally:
        os.close(fd)


def allocate(path: Path, size: int, what: str, hint: str, *, mapped: int = 0) -> Mapping:
    """Make the file with `size` zero bytes and map it; on failure no file is left.

    mapped: bytes of the file, and of its mapping, where these are more; what is behind `size` has no memory.

    Raises NoSpace when the memory is not there (`what` needs it; `hint` is how it needs less), FileExistsError,
    SegmentError when the system refuses.
    """
    fd = open_private(path, make=Make.ALWAYS)
    try:
        # All pages before the first touch: a full /dev/shm is an error here, and never SIGBUS later.
        os.posix_fallocate(fd, 0, size)
        if mapped > size:
            os.ftruncate(fd, mapped)
        return map_file(fd, max(size, mapped), path)
    except BaseException as error:
        os.unlink(path)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        if reached := limit_reached(error)[0]:
            raise NoSpace(f"{what} of {size} bytes cannot be mapped: {reached}", backend="shm", hint=hint) from error
        stats = os.statvfs(path.parent)
        free = stats.f_bavail * stats.f_frsize
        raise NoSpace(
            f"{what} of {size} bytes does not fit into {path.parent}: {free} bytes are free",
            backend="shm",
            hint=f"{hint}, or enlarge it (docker run --shm-size=1g; mount -o remount,size=1g /dev/shm)",
        ) from error
    finally:
        os.close(fd)
