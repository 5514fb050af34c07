"""Ring ends in pure Python: what `_native/ring_*.c` do, for x86-64 only.

`arm` may ask to be woken though nothing else parks here: a system call stands between its store and its look.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from lucky_transport.codec.envelope import CompactFields, ItemRun, Popped, decode_compact, encode_compact
from lucky_transport.errors import SegmentError
from lucky_transport.shm.channel import PEER_PARKS, PEER_WAKES
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.fallback_words import futex_wake, is_cut, poll
from lucky_transport.shm.ring import (
    HEAD_BYTES,
    LENGTH_BYTES,
    MODULUS,
    READ_POSITION,
    SKIP,
    WRITE_POSITION,
    WRITER_PARK,
    SharedWords,
    check_length,
    check_outgoing,
    check_place,
    check_skip,
    distance,
)

__all__ = ["RingReader", "RingWriter", "spin"]

_BOTH = PEER_WAKES | PEER_PARKS
_SKIP = SKIP.to_bytes(LENGTH_BYTES, "little")


class _BufferWords:
    """Aligned words of a buffer through one cast view: a machine access each."""

    __slots__ = ("_words", "memory")

    def __init__(self, buffer: Any) -> None:
        self.memory = memoryview(buffer).cast("B")
        self._words = self.memory[: len(self.memory) & ~3].cast("I")

    def load32(self, offset: int) -> int:
        return self._words[offset >> 2]

    def store32(self, offset: int, value: int) -> None:
        self._words[offset >> 2] = value


class _End:
    """What both ends have. `memory`: a buffer, or its words where a test watches each access."""

    def __init__(
        self,
        memory: Any,
        offset: int,
        size: int,
        /,
        park: int = -1,
        eventfd: int = -1,
        strategy: int = 1,
        peer: int = _BOTH,
        empty: bool = False,
    ) -> None:
        self._words = cast(SharedWords, memory) if hasattr(memory, "load32") else _BufferWords(memory)
        check_place(len(self._words.memory), offset, size)
        self.size = size
        self._offset = offset
        self._data = offset + HEAD_BYTES
        # A descriptor of its own: the pipe may be closed, and its number given to another file, during a push.
        self._park, self._eventfd = park, EventFd(os.dup(eventfd) if eventfd >= 0 else -1)
        self._peer_parks = bool(peer & PEER_PARKS)
        self._stopped = False
        self._why: Callable[[], Exception] | None = None
        self._mapping = getattr(self._words.memory, "obj", None)
        for word in (WRITE_POSITION, READ_POSITION, WRITER_PARK) if empty else ():
            self._words.store32(offset + word, 0)

    def __del__(self) -> None:
        if hasattr(self, "_eventfd"):  # the constructor may have refused its arguments
            self._eventfd.close()

    def _load(self, word: int) -> int:
        return self._words.load32(self._offset + word)

    def _check(self) -> None:
        """Raise SegmentError when the file that is mapped was cut; sealed memory cannot be."""
        if is_cut(self._mapping):
            raise SegmentError(
                f"the ring's file was truncated to less than its {len(self._words.memory)} bytes",
                backend="shm",
                hint="another process of this user did that; start the engine again and connect again",
            )

    def _check_open(self) -> None:
        if self._why is not None:
            raise self._why()
        self._check()

    def shut(self, why: Callable[[], Exception]) -> None:
        self._why = why

    def _wake(self, word: int) -> None:
        """Wake the side that may be parked on the word at this byte of the memory."""
        self._words.store32(word, 0)
        futex_wake(self._words.memory, word)


class RingWriter(_End):
    """The writing end; goes on where the shared position stands."""

    def __init__(self, memory: Any, offset: int, size: int, /, **options: Any) -> None:
        super().__init__(memory, offset, size, **options)
        self.position = 0
        if not options.get("empty"):
            self.position = self._load(WRITE_POSITION)
            _ = self.free

    @property
    def free(self) -> int:
        return self.size - distance(self.position, self._load(READ_POSITION), self.size)

    def _need_of(self, length: int) -> int:
        """Return the bytes that must be free for a record of `length` bytes now."""
        stride = check_outgoing(length, self.size)
        index = self.position & (self.size - 1)
        return stride + (self.size - index if index + stride > self.size else 0)

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        self._check_open()
        need = self._need_of(len(record))
        if need > self.free:
            return False
        memory = self._words.memory
        index = self.position & (self.size - 1)
        if index + need > self.size:
            start = self._data + index
            memory[start : start + LENGTH_BYTES] = _SKIP
            index = 0
        start = self._data + index + LENGTH_BYTES
        memory[start - LENGTH_BYTES : start] = len(record).to_bytes(LENGTH_BYTES, "little")
        memory[start : start + len(record)] = record
        self.position = (self.position + need) % MODULUS
        # The release store comes last: a reader that sees the new position sees the whole record.
        self._words.store32(self._offset + WRITE_POSITION, self.position)
        if self._park >= 0 and self._peer_parks and not self._stopped:
            if self._eventfd.fd < 0:
                self._wake(self._park)
            else:
                self._words.store32(self._park, 0)
                self._eventfd.notify()
        return True

    def push(self, *fields: Any) -> bool:
        return self.try_push(encode_compact(*cast(CompactFields, fields)))

    def wait_writable(self, length: int, timeout_ns: int) -> int:
        need = self._need_of(length)

        def fits() -> bool:
            self._check()
            return self.free >= need

        return poll(fits, lambda: self._stopped, timeout_ns)

    def woke_reader(self) -> bool:
        return False  # whether it was parked is not known here

    def stop(self) -> None:
        self._stopped = True


class RingReader(_End):
    """The reading end; goes on where the shared position stands."""

    def __init__(self, memory: Any, offset: int, size: int, /, **options: Any) -> None:
        super().__init__(memory, offset, size, **options)
        self.position = 0
        if not options.get("empty"):
            self.position = self._load(READ_POSITION)
            _ = self.pending

    @property
    def pending(self) -> int:
        return distance(self._load(WRITE_POSITION), self.position, self.size)

    def try_pop(self) -> bytes | None:
        self._check_open()
        published = self.pending
        if not published:
            return None
        position, size = self.position, self.size
        index = position & (size - 1)
        length = self._length_at(index)
        if length == SKIP:
            skipped = check_skip(index, published, size)
            position = (position + skipped) % MODULUS
            published -= skipped
            if not published:  # a writer may publish the skip ahead of the record that needs it
                self._give_back(position)
                return None
            index = 0
            length = self._length_at(index)
        stride = check_length(length, index, published, size)
        start = self._data + index + LENGTH_BYTES
        record = bytes(self._words.memory[start : start + length])
        self._give_back((position + stride) % MODULUS)
        return record

    def _length_at(self, index: int) -> int:
        start = self._data + index
        return int.from_bytes(self._words.memory[start : start + LENGTH_BYTES], "little")

    def _give_back(self, position: int) -> None:
        """Let the writer have everything before `position`; a release store, so that our copy is made before."""
        self.position = position
        self._words.store32(self._offset + READ_POSITION, position)
        # What is missed here costs the writer one sleep: it looks again by itself.
        if self._load(WRITER_PARK) == 1:
            self._wake(self._offset + WRITER_PARK)

    def pop_batch(self, limit: int) -> Popped | ItemRun | None:
        record = self.try_pop()
        return None if record is None else decode_compact(record)

    def ready(self) -> bool:
        return self._load(WRITE_POSITION) != self.position

    def wait(self, timeout_ns: int, oversubscribed: bool = False, skip_spin: bool = False) -> int:
        def is_ready() -> bool:
            self._check()
            return self.ready()

        result = poll(is_ready, lambda: self._stopped, timeout_ns)
        if self._stopped:
            self._stopped = False
            return result if result == 1 else 0
        return result

    def interrupt(self) -> None:
        self._stopped = True

    def arm(self) -> bool:
        self._words.store32(self._park, 1)
        futex_wake(self._words.memory, self._park)  # nothing is parked there: this is the fence
        if not self.ready():
            return False
        self.disarm()
        return True

    def disarm(self) -> None:
        self._words.store32(self._park, 0)


def spin(readers: tuple[RingReader, ...], strategy: int, longest_ns: int) -> bool:
    return any(reader.ready() for reader in readers)
