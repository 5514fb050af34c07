"""The blocks of shared memory in which Holodeck's halves meet, one file each.

The client makes the blocks and maps them (`SharedArray`). A file of the right size is never truncated: the engine may
have it mapped and would die. Our engine maps nothing that a client made (`BlockFile`): it reads and writes the file, so
that a client which truncates it costs a short read and not the engine's life. A block is a regular file of this user,
of any mode: the original's halves make theirs with their own.
"""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import NoSpace
from lucky_transport.shm.mapping import map_file
from lucky_transport.shm.private_file import Make, open_private, remove_private
from lucky_transport_holodeck.names import COMMAND_BOOL, COMMAND_BUFFER, RESET, Names

__all__ = ["BlockFile", "BlockFiles", "SharedArray"]


class SharedArray:
    """A block that this side made: `array` is it, of `dtype` and `shape`, zeros at first; it lives as long as a view.

    Raises NoSpace when shared memory is full, SegmentError for a file of another user.
    """

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...]) -> None:
        self.path = path
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        fd = open_private(path, make=Make.IF_ABSENT, any_mode=True, backend="holodeck")
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
            os.posix_fallocate(fd, 0, size)
            self.array: NDArray[Any] = np.frombuffer(map_file(fd, size, path), dtype, count).reshape(shape)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                raise
            os.unlink(path)
            raise NoSpace(f"{path} ({size} bytes): shared memory is full", backend="holodeck") from error
        finally:
            os.close(fd)
        self.array[...] = 0

    def unlink(self) -> None:
        """Remove the file; the array stays valid. Idempotent."""
        remove_private(self.path)


class BlockFile:
    """A block as the engine's end uses it, `size` bytes long; made where it is not there yet.

    Raises SegmentError for a file of another user.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = open_private(path, make=Make.IF_ABSENT, any_mode=True, backend="holodeck")

    def read(self) -> bytes:
        """Return the block's bytes; what a client cut off is zeros."""
        data = os.pread(self._fd, self.size, 0)
        return data if len(data) == self.size else data.ljust(self.size, b"\0")

    def read_some(self, count: int) -> bytes:
        """Return the first `count` bytes, fewer where the file ends before."""
        return os.pread(self._fd, count, 0)

    def read_into(self, room: memoryview) -> None:
        """Read the block into `room`, bytes, as far as both go."""
        os.preadv(self._fd, [room[: self.size]], 0)

    def write(self, data: bytes | memoryview) -> None:
        """Write the block's bytes; `data` is C-contiguous and no longer than the block."""
        try:
            os.pwrite(self._fd, data, 0)
        except OSError as error:
            if error.errno != errno.ENOSPC:  # the client cut the file off, and shared memory is full: its own loss
                raise

    @property
    def changed_ns(self) -> int:
        """When the file was last made, cut or written (writing through a mapping does not count)."""
        return os.fstat(self._fd).st_ctime_ns

    def close(self) -> None:
        """Let go of the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class BlockFiles:
    """Opens the blocks of one pair, and knows which there are: a client that leaves a running engine lets them lie."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._paths = {names.block(key) for key in (COMMAND_BOOL, COMMAND_BUFFER, RESET)}

    def open(self, key: str, size: int) -> BlockFile:
        """Return the block `key` of `size` bytes; raises RemoteProtocolError for an impossible key."""
        self.note(key)
        return BlockFile(self.names.block(key), size)

    def note(self, *keys: str) -> None:
        """Remember blocks that a client has made, to be removed at the end; raises RemoteProtocolError."""
        self._paths.update(map(self.names.block, keys))

    def unlink(self) -> None:
        """Remove every block that was ever there."""
        for path in self._paths:
            remove_private(path)
