"""Words, waits and ring ends in pure Python: what `_native/words.c`, `wait.c` and `ring_*.c` do, for x86-64 only.

Words are read and written through `memoryview.cast`, one aligned machine access each; `struct` would tear them.
Waits never park: plain stores may pass later loads even on x86, so a parked Python side could miss its wake-up. A peer
that may park is woken after each store, whatever its park word says: FUTEX_WAKE is the fence that orders our store
before its look at it. `arm` may ask to be woken all the same: a system call stands between its store and its look.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any, cast

import numpy as np

from lucky_transport.codec.envelope import CompactFields, ItemRun, Popped, decode_compact, encode_compact
from lucky_transport.errors import SegmentError
from lucky_transport.shm.channel import PEER_PARKS, PEER_WAKES, Result
from lucky_transport.shm.eventfd import notify_eventfd
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
from lucky_transport.shm.timing import FALLBACK_PEER_POLL_S, FALLBACK_SLEEP_S, FALLBACK_SPIN_S, FALLBACK_YIELD_NS

__all__ = [
    "Doorbell",
    "RingReader",
    "RingWriter",
    "bytes_at",
    "is_cut",
    "load32",
    "load64",
    "poll",
    "spin",
    "store32",
    "store64",
    "wait32",
    "wake",
    "word32",
    "word64",
]

_BOTH = PEER_WAKES | PEER_PARKS
_SKIP = SKIP.to_bytes(LENGTH_BYTES, "little")

_SYS_FUTEX, _FUTEX_WAKE = 202, 1  # x86-64

_libc = ctypes.CDLL(None, use_errno=True)


def _address_of(memory: Any, offset: int) -> int:
    """Return the address of a byte of a buffer; it is valid while the buffer lives."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data) + offset


def _futex_wake(address: int) -> None:
    """Wake one thread, of any process, that is parked on the word at `address`."""
    _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(address), _FUTEX_WAKE, 1, None, None, 0)


def bytes_at(mapping: mmap, offset: int, size: int) -> memoryview:
    """Return so many bytes at `offset`; what is as long as a word has to be aligned like one. Raises ValueError."""
    if offset + size > len(mapping) or (size in (4, 8) and offset % size):
        raise ValueError(f"offset {offset} (+{size}) does not lie in the {len(mapping)} bytes mapped")
    return memoryview(mapping)[offset : offset + size]


def word32(mapping: mmap, offset: int) -> memoryview:
    """Return the u32 at `offset` as a view of one element. Raises ValueError outside the mapping."""
    return bytes_at(mapping, offset, 4).cast("I")


def word64(mapping: mmap, offset: int) -> memoryview:
    """Return the u64 at `offset` as a view of one element. Raises ValueError outside the mapping."""
    return bytes_at(mapping, offset, 8).cast("Q")


def is_cut(mapping: object) -> bool:
    """True when a mapped file is shorter than the mapping: touching it may end the process."""
    if not isinstance(mapping, mmap):
        return False
    try:
        return mapping.size() < len(mapping)
    except OSError:  # memory without a file
        return False


class Doorbell:
    """The park word of a peer that may park. `needed`: False for a peer that only polls."""

    __slots__ = ("_address", "_word", "needed")

    def __init__(self, mapping: mmap, offset: int, *, needed: bool = True) -> None:
        self._word, self._address = word32(mapping, offset), _address_of(mapping, offset)
        self.needed = needed

    def wake(self) -> None:
        """Wake the peer, whether it says that it is parked or not."""
        if self.needed:
            self._word[0] = 0
            _futex_wake(self._address)


def poll(there: Callable[[], bool], stopped: Callable[[], bool], pidfd: int, timeout_ns: int) -> int:
    """Look until `there()`: 1; Result.TIMED_OUT then or once `stopped()`; Result.PEER_GONE."""
    start = time.monotonic()
    end = start + timeout_ns / 1e9
    look_at_peer = start
    while not there():
        now = time.monotonic()
        if now >= look_at_peer:
            look_at_peer = now + FALLBACK_PEER_POLL_S
            if _gone(pidfd):
                return 1 if there() else Result.PEER_GONE
        if now >= end or stopped():
            return Result.TIMED_OUT
        time.sleep(0.0 if now - start < FALLBACK_YIELD_NS / 1e9 else min(FALLBACK_SLEEP_S, end - now))
    return 1


def _gone(pidfd: int) -> bool:
    """True when the process of this pidfd has ended; False for -1."""
    if pidfd < 0:
        return False
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def load32(mapping: mmap, offset: int) -> int:
    return word32(mapping, offset)[0]


def store32(mapping: mmap, offset: int, value: int) -> None:
    word32(mapping, offset)[0] = value


def load64(mapping: mmap, offset: int) -> int:
    return word64(mapping, offset)[0]


def store64(mapping: mmap, offset: int, value: int) -> None:
    word64(mapping, offset)[0] = value


def wake(mapping: mmap, offset: int) -> None:
    Doorbell(mapping, offset).wake()


def wait32(
    mapping: mmap, offset: int, old: int, /, park: int, strategy: int, peer: int, pidfd: int, timeout_ns: int
) -> int:
    word = word32(mapping, offset)
    return poll(lambda: not is_cut(mapping) and word[0] != old, lambda: is_cut(mapping), pidfd, timeout_ns)


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
    ) -> None:
        self._words = cast(SharedWords, memory) if hasattr(memory, "load32") else _BufferWords(memory)
        check_place(len(self._words.memory), offset, size)
        self.size = size
        self._offset = offset
        self._data = offset + HEAD_BYTES
        self._park, self._eventfd = park, eventfd
        self._peer_parks = bool(peer & PEER_PARKS)
        self._stopped = False
        self._why: Callable[[], Exception] | None = None
        self._mapping = getattr(self._words.memory, "obj", None)

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
        _futex_wake(_address_of(self._words.memory, word))


class RingWriter(_End):
    """The writing end; goes on where the shared position stands."""

    def __init__(self, memory: Any, offset: int, size: int, /, **options: int) -> None:
        super().__init__(memory, offset, size, **options)
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
            if self._eventfd < 0:
                self._wake(self._park)
            else:
                self._words.store32(self._park, 0)
                notify_eventfd(self._eventfd)
        return True

    def push(self, *fields: Any) -> bool:
        return self.try_push(encode_compact(*cast(CompactFields, fields)))

    def wait_writable(self, length: int, pidfd: int, timeout_ns: int) -> int:
        need = self._need_of(length)

        def fits() -> bool:
            self._check()
            return self.free >= need

        return poll(fits, lambda: self._stopped, pidfd, timeout_ns)

    def woke_reader(self) -> bool:
        return False  # whether it was parked is not known here

    def stop(self) -> None:
        self._stopped = True


class RingReader(_End):
    """The reading end; goes on where the shared position stands."""

    def __init__(self, memory: Any, offset: int, size: int, /, **options: int) -> None:
        super().__init__(memory, offset, size, **options)
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

    def wait(self, pidfd: int, timeout_ns: int, oversubscribed: bool = False, skip_spin: bool = False) -> int:
        def is_ready() -> bool:
            self._check()
            return self.ready()

        result = poll(is_ready, lambda: self._stopped, pidfd, timeout_ns)
        if self._stopped:
            self._stopped = False
            return result if result == 1 else 0
        return result

    def interrupt(self) -> None:
        self._stopped = True

    def arm(self) -> bool:
        self._words.store32(self._park, 1)
        _futex_wake(_address_of(self._words.memory, self._park))  # nothing is parked there: this is the fence
        if not self.ready():
            return False
        self.disarm()
        return True

    def disarm(self) -> None:
        self._words.store32(self._park, 0)


def spin(readers: tuple[RingReader, ...], strategy: int, longest_ns: int) -> bool:
    end = time.monotonic() + min(longest_ns / 1e9, FALLBACK_SPIN_S)
    while True:
        if any(reader.ready() for reader in readers):
            return True
        if not longest_ns or time.monotonic() >= end:
            return False
        os.sched_yield()
