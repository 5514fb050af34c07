"""The blocks of shared memory in which the ends of Holodeck's protocol meet, one file each.

The client maps them (`map_block`); our engine reads and writes the files (`BlockFile`), so that a client which
truncates one costs it a short read and not its life.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import NoSpace, RemoteProtocolError
from lucky_transport.shm.files.mapping import map_file
from lucky_transport.shm.files.private_file import Make, open_private, remove_private
from lucky_transport_holodeck.commands import BUFFER_BYTES, HolodeckCommand, decode
from lucky_transport_holodeck.names import COMMAND_BOOL, COMMAND_BUFFER, REFUSED, RESET, Names

#: Batches of commands are short as a rule; only one that does not end within this is read whole.
_FIRST_BYTES = 1 << 14
_OFF = b"\0"
#: Bytes of the block in which our engine says to our client what it refuses.
REFUSED_BYTES = 1 << 12


def map_block(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a block as an array, made where it is not there yet, zeros at first; it lives as long as a view.

    Raises NoSpace when shared memory is full, SegmentError for a file of another user.
    """
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    fd = open_private(path, make=Make.IF_ABSENT, any_mode=True, backend="holodeck")
    try:
        have = os.fstat(fd).st_size
        if have < size or (have > size and _pages(have) == _pages(size)):
            os.ftruncate(fd, size)  # never by a page: an engine that has it mapped would die
        os.posix_fallocate(fd, 0, size)
        array = np.frombuffer(map_file(fd, size, path), dtype, count).reshape(shape)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        os.unlink(path)
        raise NoSpace(f"{path} ({size} bytes): shared memory is full", backend="holodeck") from error
    finally:
        os.close(fd)
    array[...] = 0
    return array


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE)


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

    def read_into(self, target: memoryview) -> None:
        """Read the block into `target`, bytes, as far as both go."""
        os.preadv(self._fd, [target[: self.size]], 0)

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
        """Close the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class BlockFiles:
    """Opens the blocks of one pair, and knows which there are: a client that leaves a running engine leaves them."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._paths = {names.block(key) for key in (COMMAND_BOOL, COMMAND_BUFFER, RESET, REFUSED)}

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


class ControlBlocks:
    """The three blocks that every client has, as the engine reads them: whether there are commands, which, and the
    reset.

    A flag is put back once it was obeyed; the client sets it again.
    """

    def __init__(self, files: BlockFiles) -> None:
        self._flag = files.open(COMMAND_BOOL, 1)
        self._buffer = files.open(COMMAND_BUFFER, BUFFER_BYTES)
        self._reset = files.open(RESET, 1)
        self._refused = files.open(REFUSED, REFUSED_BYTES) if files.names.block(REFUSED).exists() else None
        self._refusals: list[str] = []

    @property
    def made_ns(self) -> int:
        """When a client made the command block: another client, another time."""
        return self._buffer.changed_ns

    def pop_commands(self) -> list[HolodeckCommand]:
        """Return the commands that wait, each once; raises RemoteProtocolError when they cannot be read."""
        if self._flag.read_some(1) in (b"", _OFF):
            return []
        self._flag.write(_OFF)
        try:
            return decode(self._buffer.read_some(_FIRST_BYTES))
        except RemoteProtocolError:
            return decode(self._buffer.read_some(BUFFER_BYTES))

    def pop_reset(self) -> bool:
        """True, once, when the client wants the world to start anew."""
        if self._reset.read_some(1) in (b"", _OFF):
            return False
        self._reset.write(_OFF)
        self._refusals.clear()
        return True

    def refuse(self, text: str) -> None:
        """Tell the client, if it is one of ours, what the engine does not have; it reads this after its reset."""
        self._refusals.append(text)
        if self._refused is not None:
            self._refused.write("; ".join(self._refusals).encode()[:REFUSED_BYTES])

    def close(self) -> None:
        """Close the files; idempotent."""
        for file in (self._flag, self._buffer, self._reset, self._refused):
            if file is not None:
                file.close()
