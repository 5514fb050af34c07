"""A queue of records between one writer and one reader, in memory both have mapped; no lock.

    byte 0      u32 write position: bytes ever written, modulo 2**32; only the writer stores it
    byte 128    u32 read position: bytes ever read, modulo 2**32; only the reader stores it
    byte 192    u32 1 while the writer is parked until there is room; whoever wakes it stores 0
    byte 256    data, a power of two in size; a position modulo that size is an index into it

Rule 1: the data is written before the write position says so, and copied out before the read position gives it back;
        both stores are releases, both loads of the other's position acquires.
Rule 2: each side keeps its own position to itself and believes the other's only as far as it is possible: a multiple
        of 8, at most `size` ahead.
Rule 3: a record is copied out before its first check; nothing is read twice.
Rule 4: one thread at a time on each side; whoever shares a side locks around it.
"""

from __future__ import annotations

from typing import Protocol

from lucky_transport.errors import RemoteProtocolError, SegmentError
from lucky_transport.shm.record import ALIGNMENT, LENGTH_BYTES, SKIP, check_length, check_outgoing, check_skip

__all__ = [
    "HEAD_BYTES",
    "ROOM_PARK",
    "RingReader",
    "RingWriter",
    "SharedWords",
    "check_place",
    "distance",
    "reset_ring",
    "ring_bytes",
]

#: The two positions lie on cache lines of their own (two lines apart: processors prefetch lines in pairs).
_WRITE_POSITION = 0
_READ_POSITION = 128
ROOM_PARK = 192
HEAD_BYTES = 256

_SMALLEST = 64
_LARGEST = 1 << 31  # beyond it, a distance modulo 2**32 could not tell full from empty
_MODULUS = 1 << 32
_SKIP = SKIP.to_bytes(LENGTH_BYTES, "little")


class SharedWords(Protocol):
    """Shared memory with ordered access to its words; offsets count from the start of `memory`."""

    @property
    def memory(self) -> memoryview:
        """The whole mapping, format "B"."""
        ...

    def load32(self, offset: int) -> int:
        """Return the aligned little-endian u32 at `offset`; later reads do not move before it (acquire)."""
        ...

    def store32(self, offset: int, value: int) -> None:
        """Store the aligned u32 at `offset`; earlier reads and writes do not move behind it (release)."""
        ...


def ring_bytes(size: int) -> int:
    """Return the bytes that a ring with `size` data bytes takes in memory."""
    return HEAD_BYTES + size


def reset_ring(words: SharedWords, offset: int, size: int) -> None:
    """Make the ring at `offset` empty; only while nobody uses it. Raises SegmentError when it does not fit."""
    check_place(len(words.memory), offset, size)
    words.store32(offset + _WRITE_POSITION, 0)
    words.store32(offset + _READ_POSITION, 0)
    words.store32(offset + ROOM_PARK, 0)


class RingWriter:
    """The writing side of the ring at `offset` of `words`, with `size` data bytes.

    Goes on where the shared positions stand. Raises SegmentError when the ring does not fit into the memory,
    RemoteProtocolError when its positions are impossible.
    """

    __slots__ = ("_data", "_offset", "_position", "_words", "size")

    def __init__(self, words: SharedWords, offset: int, size: int) -> None:
        check_place(len(words.memory), offset, size)
        self._words = words
        self._offset = offset
        self._data = offset + HEAD_BYTES
        self.size = size
        self._position = words.load32(offset + _WRITE_POSITION)
        _ = self.free

    @property
    def position(self) -> int:
        """How far this side has written."""
        return self._position

    @property
    def free(self) -> int:
        """Bytes of data not in use now (a record takes its length word and padding besides; see `stride_of`).

        Raises RemoteProtocolError when the reader's position is impossible.
        """
        read = self._words.load32(self._offset + _READ_POSITION)
        return self.size - distance(self._position, read, self.size)

    def need_of(self, length: int) -> int:
        """Return the bytes that must be free for a record of `length` bytes now; raises SpecError as `try_push`."""
        stride = check_outgoing(length, self.size)
        index = self._position & (self.size - 1)
        return stride + (self.size - index if index + stride > self.size else 0)

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        """Append the record and return True, or change nothing and return False when it does not fit now.

        Raises SpecError for a record that can never fit, RemoteProtocolError for an impossible reader's position.
        """
        size = self.size
        stride = check_outgoing(len(record), size)
        index = self._position & (size - 1)
        skipped = size - index if index + stride > size else 0
        if skipped + stride > self.free:
            return False
        memory = self._words.memory
        if skipped:
            start = self._data + index
            memory[start : start + LENGTH_BYTES] = _SKIP
            index = 0
        start = self._data + index + LENGTH_BYTES
        memory[start - LENGTH_BYTES : start] = len(record).to_bytes(LENGTH_BYTES, "little")
        memory[start : start + len(record)] = record
        self._position = (self._position + skipped + stride) % _MODULUS
        # The release store comes last: a reader that sees the new position sees the whole record.
        self._words.store32(self._offset + _WRITE_POSITION, self._position)
        return True


class RingReader:
    """The reading side of the ring at `offset` of `words`, with `size` data bytes; see `RingWriter`."""

    __slots__ = ("_data", "_offset", "_position", "_words", "size")

    def __init__(self, words: SharedWords, offset: int, size: int) -> None:
        check_place(len(words.memory), offset, size)
        self._words = words
        self._offset = offset
        self._data = offset + HEAD_BYTES
        self.size = size
        self._position = words.load32(offset + _READ_POSITION)
        _ = self.pending

    @property
    def position(self) -> int:
        """How far this side has read; the ring is empty when the writer's position equals it."""
        return self._position

    @property
    def pending(self) -> int:
        """Bytes of data written and not read yet, with length words and padding; 0 means empty.

        Raises RemoteProtocolError when the writer's position is impossible.
        """
        write = self._words.load32(self._offset + _WRITE_POSITION)
        return distance(write, self._position, self.size)

    def try_pop(self) -> bytes | None:
        """Return a copy of the oldest record and free its place, or None when there is none.

        Raises RemoteProtocolError for positions or a record that no writer may produce; the ring is then left as it is.
        """
        published = self.pending
        if not published:
            return None
        size = self.size
        position = self._position
        index = position & (size - 1)
        length = self._length_at(index)
        if length == SKIP:
            skipped = check_skip(index, published, size)
            position = (position + skipped) % _MODULUS
            published -= skipped
            if not published:  # a writer may publish the skip ahead of the record that needs it
                self._give_back(position)
                return None
            index = 0
            length = self._length_at(index)
        stride = check_length(length, index, published, size)
        start = self._data + index + LENGTH_BYTES
        record = bytes(self._words.memory[start : start + length])
        self._give_back((position + stride) % _MODULUS)
        return record

    def _length_at(self, index: int) -> int:
        start = self._data + index
        return int.from_bytes(self._words.memory[start : start + LENGTH_BYTES], "little")

    def _give_back(self, position: int) -> None:
        """Let the writer have everything before `position`; a release store, so that our copy is made before."""
        self._position = position
        self._words.store32(self._offset + _READ_POSITION, position)


def distance(write: int, read: int, size: int) -> int:
    """Return how far the writer is ahead; raises RemoteProtocolError for what cannot be."""
    ahead = (write - read) % _MODULUS
    if ahead > size or (write | read) % ALIGNMENT:
        raise RemoteProtocolError(
            f"ring positions {write} (write) and {read} (read) are {ahead} apart, expected multiples of {ALIGNMENT} "
            f"at most {size} apart",
            backend="shm",
            hint="the peer is broken or speaks another protocol; connect again",
        )
    return ahead


def check_place(total: int, offset: int, size: int) -> None:
    """Raise SegmentError unless a ring with `size` data bytes can lie at `offset` of `total` bytes of memory."""
    if not _SMALLEST <= size <= _LARGEST or size & (size - 1):
        raise SegmentError(
            f"a ring of {size} data bytes, expected a power of two from {_SMALLEST} to {_LARGEST}", backend="shm"
        )
    if offset < 0 or offset % ALIGNMENT or offset + ring_bytes(size) > total:
        raise SegmentError(
            f"a ring of {ring_bytes(size)} bytes at byte {offset} does not fit into {total} bytes of memory at a "
            f"multiple of {ALIGNMENT}",
            backend="shm",
        )
