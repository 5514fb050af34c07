"""A pair of rings in one memory, made by the engine for one client, and the pipe on top of it.

byte 0      park word of the engine: it waits for what the client writes
byte 128    park word of the client
byte 256    ring, client to engine; then ring, engine to client
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from mmap import mmap

from lucky_transport.errors import NoSpace, RemoteProtocolError
from lucky_transport.shm.ends import ReadingEnd, WritingEnd, open_reader, open_writer
from lucky_transport.shm.layout import CACHE_LINE
from lucky_transport.shm.ring import ring_bytes
from lucky_transport.shm.usage_guard import UsageGuard

__all__ = ["LARGEST", "SMALLEST", "RingPair", "RingPipe", "make_pair", "receive_pair", "total_bytes"]

#: Rings smaller than a page are no use, larger ones a lie.
SMALLEST, LARGEST = 4096, 1 << 28

#: Neither side can shrink the memory, which would be SIGBUS on the other, or remove the seals.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

#: A closed pipe has a ring of its own, of this size.
_NO_RING = 64


@dataclass(frozen=True, slots=True)
class RingPair:
    """Two rings of `size` data bytes each in one mapping, and where they and their park words lie."""

    mapping: mmap
    size: int

    park_engine = 0
    park_client = CACHE_LINE
    to_engine = 2 * CACHE_LINE

    @property
    def to_client(self) -> int:
        """Byte where the ring from engine to client begins."""
        return self.to_engine + ring_bytes(self.size)


def total_bytes(size: int) -> int:
    """Return the bytes of a pair whose rings have `size` data bytes."""
    return 2 * CACHE_LINE + 2 * ring_bytes(size)


def make_pair(size: int) -> tuple[RingPair, int]:
    """Return a new pair with empty rings and its descriptor, sealed; raises NoSpace when there is no memory."""
    fd = os.memfd_create("lucky_rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, total_bytes(size))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return RingPair(mmap(fd, total_bytes(size)), size), fd
    except OSError as error:
        os.close(fd)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        raise NoSpace(f"no memory for two rings of {size} bytes", backend="shm", hint="close other clients") from error
    except BaseException:
        os.close(fd)
        raise


def receive_pair(fd: int, size: int) -> RingPair:
    """Map the pair that a peer sent, with `size` data bytes per ring by its own account; `fd` stays open.

    Raises RemoteProtocolError when it is not sealed memory of the right size.
    """
    if not SMALLEST <= size <= LARGEST or size & (size - 1):
        raise RemoteProtocolError(
            f"the engine offers rings of {size} bytes, expected a power of two from {SMALLEST} to {LARGEST}",
            backend="shm",
        )
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size != total_bytes(size):
        raise RemoteProtocolError(
            f"the engine sent {status.st_size} bytes for two rings of {size}, expected {total_bytes(size)} of memory",
            backend="shm",
        )
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0  # a file, not a memfd
    if seals & _SEALS != _SEALS:
        raise RemoteProtocolError(
            f"the engine's memory has the seals {seals:#x}, expected at least {_SEALS:#x}", backend="shm"
        )
    return RingPair(mmap(fd, status.st_size), size)


class RingPipe:
    """The records of a `lucky_transport.rpc.pipe.Pipe` made of two rings. reader: the reading end, for a poller.

    `try_push`, `push`, `try_pop` and `pop_batch` are those of the ends, without a function in between.
    """

    def __init__(self, guard: UsageGuard, writer: WritingEnd, reader: ReadingEnd) -> None:
        self._guard = guard
        self.use(writer, reader)

    def use(self, writer: WritingEnd, reader: ReadingEnd) -> None:
        """Have these ends from now on; shut ones, if the pipe is closed."""
        self._writer, self.reader = writer, reader
        if self._guard.closed:
            self._shut()
        self.try_push, self.push = writer.try_push, writer.push
        self.try_pop, self.pop_batch = reader.try_pop, reader.pop_batch

    def _let_go_of_rings(self, native: bool) -> RingPair:
        """Have shut ends of an empty ring, and return its memory; no thread is inside the guard.

        A closed pipe that is still referenced then holds no memory of its rings.
        """
        nothing = RingPair(mmap(-1, total_bytes(_NO_RING)), _NO_RING)
        memory = nothing.mapping
        writer = open_writer(memory, nothing.to_engine, _NO_RING, native=native)
        writer.stop()
        self.use(writer, open_reader(memory, nothing.to_client, _NO_RING, park=nothing.park_client, native=native))
        return nothing

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._guard.closed

    def _shut(self) -> None:
        """Refuse every record from now on, with the guard's error; idempotent."""
        self._writer.shut(self._guard.error)
        self.reader.shut(self._guard.error)
