"""The newest of a sequence of records in a file of shared memory: one writer, one reader, no waiting.

    byte 0      magic, version, slots, 0 (u32 each), bytes per slot (u64)
    byte 64     newest (u32): number of the newest record, times 4, plus its slot; 0 before the first
    byte 128    reading (u32): slot that the reader looks at, plus 1; 0 for none
    byte 192    park word of a reader that waits for a newer record (u32)
    byte 256    state (u32): see `LatestValueState`
    byte 320    a word that is always 0
    byte 4096   3 slots, each at a multiple of 4096: length (u32), 0 (u32), the record

The writer takes a slot that is neither the newest nor the reader's, so that a record never changes while it is read.
The reader names its slot, then checks that it is still the newest; a fence on either side lies between the two, so that
one of them sees the other. Latest wins: what the reader missed is gone. Sizes are checked once, against the file's;
each word of the peer is checked each time it is used.
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from pathlib import Path

from lucky_transport.errors import RemoteProtocolError, SegmentError
from lucky_transport.shm.atomics import PEER_PARKS, PEER_WAKES, Words
from lucky_transport.shm.mapping import Mapping, allocate, map_file
from lucky_transport.shm.private_file import open_private, remove_private

__all__ = ["LatestValueFile", "LatestValueState"]

_MAGIC = 0x4B4F4F4C  # "LOOK"
_VERSION = 1
_HEAD = struct.Struct("<IIIIQ")
_NEWEST, _READING, _PARK, _STATE, _FENCE = 64, 128, 192, 256, 320
_DATA = 4096
_SLOTS = 3
_RECORD = struct.Struct("<II")
_NUMBERS = 1 << 30
_TRIES = 100_000


class LatestValueState(IntEnum):
    """LIVE: more may come. ENDED: nothing comes any more. OUTGROWN: the next record did not fit; it is elsewhere."""

    LIVE = 0
    ENDED = 1
    OUTGROWN = 2


class LatestValueFile:
    """One mapped file. Made by `create` for the writer and by `open` for the reader."""

    def __init__(self, path: Path, mapping: Mapping, slot_bytes: int, native: bool) -> None:
        self.path = path
        self._mapping = mapping
        self._memory = memoryview(mapping)
        self._words = Words(mapping, native)
        self._slot_bytes = slot_bytes
        self._number = self._slot = 0

    @classmethod
    def create(cls, path: Path, least_bytes: int, *, native: bool = True) -> LatestValueFile:
        """Make the file for records of up to `least_bytes` or a bit more.

        Raises NoSpace, FileExistsError, SegmentError when the system refuses.
        """
        slot_bytes = least_bytes + _RECORD.size + _DATA - 1 & -_DATA
        mapping = allocate(path, _DATA + _SLOTS * slot_bytes, "a session in shared memory", "share fewer sessions")
        _HEAD.pack_into(mapping, 0, _MAGIC, _VERSION, _SLOTS, 0, slot_bytes)
        return cls(path, mapping, slot_bytes, native)

    @classmethod
    def open(cls, path: Path, *, native: bool = True) -> LatestValueFile:
        """Map a file. Raises SegmentError when it is gone, foreign, damaged or not as large as it says."""
        try:
            fd = open_private(path)
        except FileNotFoundError as error:
            raise SegmentError(
                f"{path} cannot be opened: {error.strerror}", backend="shm", hint="is the engine on this host?"
            ) from error
        try:
            size = os.fstat(fd).st_size
            if size < _DATA:
                raise SegmentError(
                    f"{path}: {size} bytes are no shared session", backend="shm", hint="watch the session again"
                )
            mapping = map_file(fd, size, path)
        finally:
            os.close(fd)
        magic, version, slots, _, slot_bytes = _HEAD.unpack(mapping[: _HEAD.size])
        fits = slot_bytes and slot_bytes % _DATA == 0 and _DATA + _SLOTS * slot_bytes == len(mapping)
        if (magic, version, slots) != (_MAGIC, _VERSION, _SLOTS) or not fits:
            raise SegmentError(
                f"{path}: magic {magic:#x}, version {version}, {slots} slots of {slot_bytes} bytes in {len(mapping)}, "
                f"expected {_MAGIC:#x}, version {_VERSION} and sizes that fit",
                backend="shm",
                hint="install the same version on both sides",
            )
        return cls(path, mapping, slot_bytes, native)

    # -- the writer's ---------------------------------------------------------------------------------------------

    def put(self, record: bytes) -> bool:
        """Make this the newest record; False when it is too long for the file, or the file was truncated."""
        if len(record) + _RECORD.size > self._slot_bytes or not self._mapping.may_be_touched:
            return False
        words = self._words
        taken = (self._slot, words.load32(_READING) - 1)  # only the peer reads our own word
        slot = next(slot for slot in range(_SLOTS) if slot not in taken)
        start = self._start(slot)
        _RECORD.pack_into(self._mapping, start, len(record), 0)
        start += _RECORD.size
        self._memory[start : start + len(record)] = record
        self._publish(slot)
        return not self._mapping.is_lost

    def end(self, state: LatestValueState) -> None:
        """Say that nothing more comes in here; a waiting reader goes on."""
        if self._mapping.may_be_touched:
            self._words.store32(_STATE, state)
            self._publish(self._slot)

    def unlink(self) -> None:
        """Remove the file; what is mapped stays valid. Idempotent."""
        remove_private(self.path)

    def _publish(self, slot: int) -> None:
        self._number, self._slot = self._number % (_NUMBERS - 1) + 1, slot
        self._words.store32(_NEWEST, self._number << 2 | slot)
        self._words.wake(_PARK)  # a fence too: the reader's word is looked at after this

    # -- the reader's ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> int:
        """A `LatestValueState`."""
        return self._words.load32(_STATE) if self._mapping.may_be_touched else LatestValueState.LIVE

    @property
    def mark(self) -> int:
        """A number that changes with each record and when the state does."""
        return self._words.load32(_NEWEST) if self._mapping.may_be_touched else 0

    def read(self) -> bytes | None:
        """Return a copy of the newest record, None before the first. Raises RemoteProtocolError, SegmentError."""
        if not self._mapping.may_be_touched:
            raise self._mapping.error()
        slot = self._claim()
        if slot is None:
            self._mapping.check()
            return None
        try:
            start = self._start(slot)
            length, _ = _RECORD.unpack_from(self._mapping, start)
            if length > self._slot_bytes - _RECORD.size:
                raise RemoteProtocolError(f"{self.path}: a record of {length} bytes", backend="shm", hint=_HINT)
            record = bytes(self._memory[start + _RECORD.size : start + _RECORD.size + length])
        finally:
            self._words.store32(_READING, 0)
        if self._mapping.is_lost:
            raise self._mapping.error()
        return record

    def wait(self, mark: int, strategy: int, pidfd: int, timeout_ns: int) -> int:
        """Wait until `mark` has changed: 1, Result.TIMED_OUT, or Result.PEER_GONE for a writer that died.

        Raises SegmentError when the file was truncated meanwhile.
        """
        peer = PEER_WAKES | PEER_PARKS
        result = self._words.wait32(
            _NEWEST, mark, park=_PARK, strategy=strategy, peer=peer, pidfd=pidfd, timeout_ns=timeout_ns
        )
        if result != 1:
            self._mapping.check()
        return result

    def _claim(self) -> int | None:
        words = self._words
        for _ in range(_TRIES):
            newest = words.load32(_NEWEST)
            if newest == 0:
                return None
            slot = newest & 3
            if slot >= _SLOTS:
                raise RemoteProtocolError(f"{self.path}: slot {slot} of {_SLOTS}", backend="shm", hint=_HINT)
            words.store32(_READING, slot + 1)
            words.wake(_FENCE)
            if words.load32(_NEWEST) == newest:
                return slot
        words.store32(_READING, 0)
        raise RemoteProtocolError(f"{self.path} changes faster than it can be read", backend="shm", hint=_HINT)

    def _start(self, slot: int) -> int:
        return _DATA + slot * self._slot_bytes


_HINT = "the peer is broken; connect again"
