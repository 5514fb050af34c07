"""Files of shared memory: made anew, private, and with all their pages.

Rule 1: made with O_EXCL and mode 0600; pages are allocated before the first touch, so that a full /dev/shm is an error
        and never SIGBUS.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lucky_transport.errors import NoSpace
from lucky_transport.shm.mapping import Mapping, map_file
from lucky_transport.shm.private_file import Make, open_private

__all__ = ["allocate"]


def allocate(path: Path, size: int, what: str, hint: str) -> Mapping:
    """Make the file with `size` zero bytes and map it; on failure no file is left.

    Raises NoSpace when the memory is not there (`what` needs it; `hint` is how it needs less), FileExistsError,
    SegmentError when the system refuses.
    """
    fd = open_private(path, make=Make.ALWAYS)
    try:
        os.posix_fallocate(fd, 0, size)
        return map_file(fd, size, path)
    except BaseException as error:
        os.unlink(path)
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        stats = os.statvfs(path.parent)
        free = stats.f_bavail * stats.f_frsize
        raise NoSpace(
            f"{what} of {size} bytes does not fit into {path.parent}: {free} bytes are free",
            backend="shm",
            hint=f"{hint}, or enlarge it (docker run --shm-size=1g; mount -o remount,size=1g /dev/shm)",
        ) from error
    finally:
        os.close(fd)
