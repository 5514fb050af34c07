"""The two ends of a ring by the rules of `lucky_transport.shm.ring`, for one thread: what native ends must do too.

And native ends over memory of their own.
"""

from mmap import mmap
from typing import Any

from lucky_transport import native
from lucky_transport.shm.ring import (
    HEAD_BYTES,
    LENGTH_BYTES,
    MODULUS,
    READ_POSITION,
    SKIP,
    WRITE_POSITION,
    WRITER_PARK,
    check_length,
    check_outgoing,
    check_skip,
    distance,
    ring_bytes,
)
from lucky_transport.shm.ring_pipe import open_reader, open_writer


def ring_ends(
    size: int, offset: int = 0, *, socket: int = -1, **options: Any
) -> tuple[mmap, native.RingWriter, native.RingReader]:
    """Return new memory with a ring at `offset`, and its ends."""
    memory = mmap(-1, offset + ring_bytes(size) + 128)
    return (
        memory,
        open_writer(memory, offset, size, socket=socket, **options),
        open_reader(memory, offset, size, **options),
    )


class _RulesEnd:
    def __init__(self, memory: bytearray | memoryview, offset: int, size: int) -> None:
        self._memory = memoryview(memory)[offset : offset + HEAD_BYTES + size]
        self._size = size
        self.position = self._load(self._MINE)
        self._ahead()

    _MINE: int

    def _load(self, at: int) -> int:
        return int.from_bytes(self._memory[at : at + 4], "little")

    def _store(self, at: int, value: int) -> None:
        self._memory[at : at + 4] = value.to_bytes(4, "little")

    def _ahead(self) -> int:
        raise NotImplementedError


class RulesWriter(_RulesEnd):
    """The writing end."""

    _MINE = WRITE_POSITION

    def _ahead(self) -> int:
        return distance(self.position, self._load(READ_POSITION), self._size)

    def try_push(self, record: bytes) -> bool:
        """Append the record; False when it does not fit now."""
        stride = check_outgoing(len(record), self._size)
        index = self.position % self._size
        skipped = self._size - index if index + stride > self._size else 0
        if skipped + stride > self._size - self._ahead():
            return False
        if skipped:
            self._store(HEAD_BYTES + index, SKIP)
            index = 0
        self._store(HEAD_BYTES + index, len(record))
        start = HEAD_BYTES + index + LENGTH_BYTES
        self._memory[start : start + len(record)] = record
        self.position = (self.position + skipped + stride) % MODULUS
        self._store(WRITE_POSITION, self.position)
        return True


class RulesReader(_RulesEnd):
    """The reading end."""

    _MINE = READ_POSITION

    def _ahead(self) -> int:
        return distance(self._load(WRITE_POSITION), self.position, self._size)

    def try_pop(self) -> bytes | None:
        """Return the oldest record, None when there is none."""
        published = self._ahead()
        if not published:
            return None
        position, index = self.position, self.position % self._size
        length = self._load(HEAD_BYTES + index)
        if length == SKIP:
            skipped = check_skip(index, published, self._size)
            position, index, published = position + skipped, 0, published - skipped
            if not published:  # a writer may publish the skip ahead of the record that needs it
                self._give_back(position)
                return None
            length = self._load(HEAD_BYTES)
        stride = check_length(length, index, published, self._size)
        start = HEAD_BYTES + index + LENGTH_BYTES
        record = bytes(self._memory[start : start + length])
        self._give_back(position + stride)
        return record

    def _give_back(self, position: int) -> None:
        self.position = position % MODULUS
        self._store(READ_POSITION, self.position)
        if self._load(WRITER_PARK) == 1:
            self._store(WRITER_PARK, 0)
