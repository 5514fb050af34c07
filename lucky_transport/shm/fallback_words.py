"""Words and waits in pure Python: what `_native/words.c` and `wait.c` do, for x86-64 only.

Words are read and written through `memoryview.cast`, one aligned machine access each; `struct` would tear them.
Waits never park: plain stores may pass later loads even on x86, so a parked Python side could miss its wake-up. A peer
that may park is woken after each store, whatever its park word says: FUTEX_WAKE is the fence that orders our store
before its look at it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any

from lucky_transport.shm.channel import Result
from lucky_transport.shm.timing import FALLBACK_SLEEP_S, FALLBACK_YIELD_S

__all__ = [
    "Doorbell",
    "bytes_at",
    "futex_wake",
    "is_cut",
    "load32",
    "load64",
    "poll",
    "store32",
    "store64",
    "wait32",
    "wake",
    "word32",
    "word64",
]

_SYS_FUTEX, _FUTEX_WAKE = 202, 1  # x86-64

_libc = ctypes.CDLL(None, use_errno=True)


def futex_wake(memory: Any, offset: int) -> None:
    """Wake one thread, of any process, that is parked on the word at this byte of a buffer."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + offset  # no import: an array's `ctypes` is one
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

    __slots__ = ("_mapping", "_offset", "_word", "needed")

    def __init__(self, mapping: mmap, offset: int, *, needed: bool = True) -> None:
        self._word, self._mapping, self._offset = word32(mapping, offset), mapping, offset
        self.needed = needed

    def wake(self) -> None:
        """Wake the peer, whether it says that it is parked or not."""
        if self.needed:
            self._word[0] = 0
            futex_wake(self._mapping, self._offset)


def poll(there: Callable[[], bool], stopped: Callable[[], bool], timeout_ns: int) -> int:
    """Look until `there()`: 1; Result.TIMED_OUT then or once `stopped()`."""
    start = time.monotonic()
    end = start + timeout_ns / 1e9
    while not there():
        now = time.monotonic()
        if now >= end or stopped():
            return Result.TIMED_OUT
        time.sleep(0.0 if now - start < FALLBACK_YIELD_S else min(FALLBACK_SLEEP_S, end - now))
    return 1


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


def wait32(mapping: mmap, offset: int, old: int, /, park: int, strategy: int, peer: int, timeout_ns: int) -> int:
    word = word32(mapping, offset)
    return poll(lambda: not is_cut(mapping) and word[0] != old, lambda: is_cut(mapping), timeout_ns)
