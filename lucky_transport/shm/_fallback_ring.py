"""The native module's ring ends in pure Python, for x86-64 without a compiler; see ends.py for what they do.

Rule 1: a peer that may park is woken after each record, whatever its park word says (see _fallback.py, rule 2).
Rule 2: `wait` and `wait_room` never park: they poll, with longer and longer naps, at most 1 ms apart.
Rule 3: `arm` may ask to be woken all the same: a system call stands between its store and its look at the ring.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any

from lucky_transport.codec.compact import ItemRun, Popped, encode_compact, fields_of
from lucky_transport.errors import SegmentError
from lucky_transport.shm import ring
from lucky_transport.shm._fallback_words import is_cut
from lucky_transport.shm._kernel import address_of, futex_wake, gone
from lucky_transport.shm.bell import ring_bell
from lucky_transport.shm.results import PEER_PARKS, PEER_WAKES, Result

__all__ = ["RingReader", "RingWriter", "spin"]

_BOTH = PEER_WAKES | PEER_PARKS
_LOOKS = range(200)
_YIELD_S = 150e-6
_LONGEST_NAP_S = 1e-3
_LONGEST_SPIN_S = 10e-3
_PEER_LOOK_S = 0.05


class _PlainWords:
    """Aligned words of a buffer through one cast view: a machine access each."""

    __slots__ = ("_mapping", "_words", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory = memoryview(memory).cast("B")
        self._words = self.memory[: len(self.memory) & ~3].cast("I")
        self._mapping = self.memory.obj

    def check(self) -> None:
        """Raise SegmentError when the file that is mapped was cut; sealed memory cannot be."""
        if isinstance(self._mapping, mmap) and is_cut(self._mapping):
            raise SegmentError(
                f"the ring's file was truncated to less than its {len(self._mapping)} bytes",
                backend="shm",
                hint="another process of this user did that; start the engine again and connect again",
            )

    def load32(self, offset: int) -> int:
        return self._words[offset >> 2]

    def store32(self, offset: int, value: int) -> None:
        self._words[offset >> 2] = value


class _Bell:
    """How the peer is woken, when there is a way."""

    def __init__(self, words: _PlainWords, park: int, bell: int, peer: int) -> None:
        self._words, self._park, self.fd = words, park, bell
        self._address = address_of(words.memory, park) if park >= 0 else 0
        self._needed = park >= 0 and bool(peer & PEER_PARKS)

    def ring(self) -> None:
        """Wake the peer; a bell that is full rings already."""
        if not self._needed:
            return
        self._words.store32(self._park, 0)
        if self.fd < 0:
            futex_wake(self._address)
        else:
            ring_bell(self.fd)

    def silence(self) -> None:
        """Ring no more."""
        self._needed = False


class RingWriter(ring.RingWriter):
    """The writing end; the arguments are those of the native class."""

    def __init__(
        self, memory: Any, offset: int, size: int, park: int = -1, bell: int = -1, strategy: int = 1, peer: int = _BOTH
    ) -> None:
        self._own = words = _PlainWords(memory)
        super().__init__(words, offset, size)
        self._bell = _Bell(words, park, bell, peer)
        self._stopped = False
        self._why: Callable[[], Exception] | None = None

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        if self._why is not None:
            raise self._why()
        self._own.check()
        pushed = super().try_push(record)
        if pushed:
            self._bell.ring()
        return pushed

    def push(self, kind: int, correlation_id: int, payload: bytes, *fields: Any) -> bool:
        return self.try_push(encode_compact(kind, correlation_id, payload, *fields))

    def wait_room(self, length: int, pidfd: int, timeout_ns: int) -> int:
        """Wait until a record of `length` bytes fits: 1, TIMED_OUT (also after `stop`) or PEER_GONE."""
        need = self.need_of(length)

        def has_room() -> bool:
            self._own.check()
            return self.free >= need

        return _poll(has_room, lambda: self._stopped, pidfd, timeout_ns)

    def woke(self) -> bool:
        """False: whether the reader was parked is not known here."""
        return False

    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse every record from now on."""
        self._why = why

    def stop(self) -> None:
        """End a wait for room; ring no bell any more."""
        self._stopped = True
        self._bell.silence()


class RingReader(ring.RingReader):
    """The reading end; the arguments are those of the native class."""

    def __init__(
        self, memory: Any, offset: int, size: int, park: int = -1, bell: int = -1, strategy: int = 1, peer: int = _BOTH
    ) -> None:
        self._own = words = _PlainWords(memory)
        super().__init__(words, offset, size)
        self._park = park
        self._park_address = address_of(words.memory, park) if park >= 0 else 0
        self._room = offset + ring.ROOM_PARK
        self._room_address = address_of(words.memory, self._room)
        self._write = offset
        self._interrupted = False
        self._why: Callable[[], Exception] | None = None

    def try_pop(self) -> bytes | None:
        if self._why is not None:
            raise self._why()
        self._own.check()
        record = super().try_pop()
        # What is missed here costs the writer one nap: it looks again by itself.
        if self._own.load32(self._room) == 1:
            self._own.store32(self._room, 0)
            futex_wake(self._room_address)
        return record

    def pop_batch(self, limit: int) -> Popped | ItemRun | None:
        """Return one record: a ring in Python gathers no run."""
        record = self.try_pop()
        return None if record is None else fields_of(record)

    def shut(self, why: Callable[[], Exception]) -> None:
        """Pop nothing from now on."""
        self._why = why

    def ready(self) -> bool:
        """True when something was written and not popped."""
        return self._own.load32(self._write) != self._position

    def wait(self, pidfd: int, timeout_ns: int, crowded: bool = False, rested: bool = False) -> int:
        """Wait for a record: 1, 0 after `interrupt`, TIMED_OUT or PEER_GONE."""

        def is_ready() -> bool:
            self._own.check()
            return self.ready()

        result = _poll(is_ready, lambda: self._interrupted, pidfd, timeout_ns)
        if self._interrupted:
            self._interrupted = False
            return result if result == 1 else 0
        return result

    def interrupt(self) -> None:
        """Make `wait` return."""
        self._interrupted = True

    def arm(self) -> bool:
        """Have the bell rung with the next record; True, and no bell, when there is one."""
        self._own.store32(self._park, 1)
        futex_wake(self._park_address)  # nobody is parked there: this is the fence
        if not self.ready():
            return False
        self.disarm()
        return True

    def disarm(self) -> None:
        """No bell any more."""
        self._own.store32(self._park, 0)


def spin(readers: tuple[RingReader, ...], strategy: int, longest_ns: int) -> bool:
    """Look at the readers for that long, at most 10 ms; True when one has something to pop."""
    end = time.monotonic() + min(longest_ns / 1e9, _LONGEST_SPIN_S)
    while True:
        if any(reader.ready() for reader in readers):
            return True
        if not longest_ns or time.monotonic() >= end:
            return False
        os.sched_yield()


def _poll(there: Callable[[], bool], stopped: Callable[[], bool], pidfd: int, timeout_ns: int) -> int:
    """Look until `there()`: 1; TIMED_OUT then or when stopped(); PEER_GONE."""
    for _ in _LOOKS if timeout_ns else range(1):
        if there():
            return 1
    start = time.monotonic()
    end = start + timeout_ns / 1e9
    look_at_peer = start
    nap = 0.0
    while not there():
        now = time.monotonic()
        if now >= look_at_peer:
            look_at_peer = now + _PEER_LOOK_S
            if gone(pidfd):
                return 1 if there() else Result.PEER_GONE
        if now >= end or stopped():
            return Result.TIMED_OUT
        nap = 0.0 if now - start < _YIELD_S else min(max(nap * 2, 50e-6), _LONGEST_NAP_S)
        time.sleep(min(nap, end - now))
    return 1
