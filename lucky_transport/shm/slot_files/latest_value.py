"""The newest of a sequence of records in a file of shared memory: one writer, one reader, no waiting.

    byte 64     newest (u32): number of the newest record, times 4, plus its slot; 0 before the first
    byte 128    reading (u32): slot that the reader looks at, plus 1; 0 for none
    byte 192    park word of a reader that waits for a newer record (u32)
    byte 256    state (u32): see `LatestValueState`
    byte 320    a word that is always 0
    byte 4096   3 slots, each: length (u32), 0 (u32), the record

The writer takes a slot that is neither the newest nor the reader's, so that a record never changes while it is read.
The reader names its slot, then checks that it is still the newest; a fence on either side lies between the two, so that
one of them sees the other. Latest wins: what the reader missed is gone. Each word of the peer is checked each time it
is used.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from pathlib import Path

from lucky_transport import native
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.files.mapping import Mapping
from lucky_transport.shm.slot_files.slot_file import SlotFile
from lucky_transport.shm.wait import PEER_WAKES

_NEWEST, _READING, _PARK, _STATE, _FENCE = 64, 128, 192, 256, 320
_SLOTS = 3
_RECORD = struct.Struct("<II")
_NUMBERS = 1 << 30
_TRIES = 100_000


class LatestValueState(IntEnum):
    """LIVE: more may come. ENDED: nothing comes any more. OUTGROWN: the next record did not fit; it is elsewhere."""

    LIVE = 0
    ENDED = 1
    OUTGROWN = 2


def newest_number(head: bytes) -> int | None:
    """Return the number of the newest record from the first SLOTS_OFFSET bytes of a file, None for no such file.

    For observers, which read the file and map nothing.
    """
    if not LatestValueFile.slots_in(head):
        return None
    return struct.unpack_from("<I", head, _NEWEST)[0] >> 2


class LatestValueFile(SlotFile):
    """One mapped file. Made by `create` for the writer and by `open` for the reader."""

    MAGIC, VERSION, COUNTS, KIND = 0x4B4F4F4C, 1, range(_SLOTS, _SLOTS + 1), "shared session"  # "LOOK"

    def __init__(self, path: Path, mapping: Mapping, slots: int, slot_bytes: int) -> None:
        super().__init__(path, mapping, slots, slot_bytes)
        self._number = self._slot = 0

    @classmethod
    def create(cls, path: Path, least_bytes: int) -> LatestValueFile:
        """Make the file for records of up to `least_bytes` or a bit more.

        Raises NoSpace, FileExistsError, SegmentError when the system refuses.
        """
        return cls(path, *cls.allocate(path, _SLOTS, least_bytes + _RECORD.size, "share fewer sessions"))

    @classmethod
    def open(cls, path: Path) -> LatestValueFile:
        """Map a file. Raises SegmentError when it is gone, foreign, damaged or not as large as it says."""
        return cls(path, *cls.map(path))

    # -- the writer's ---------------------------------------------------------------------------------------------

    def put(self, record: bytes) -> bool:
        """Make this the newest record; False when it is too long for the file, or the file was truncated."""
        if len(record) + _RECORD.size > self.slot_bytes:
            return False
        taken = (self._slot, native.load32(self.mapping, _READING) - 1)  # only the peer reads our own word
        slot = next(slot for slot in range(_SLOTS) if slot not in taken)
        start = self.start_of(slot)
        _RECORD.pack_into(self.mapping, start, len(record), 0)
        start += _RECORD.size
        self.memory[start : start + len(record)] = record
        self._publish(slot)
        return not self.mapping.is_lost

    def end(self, state: LatestValueState) -> None:
        """Say that nothing more comes in here; a waiting reader goes on."""
        native.store32(self.mapping, _STATE, state)
        self._publish(self._slot)

    def _publish(self, slot: int) -> None:
        self._number, self._slot = self._number % (_NUMBERS - 1) + 1, slot
        native.store32(self.mapping, _NEWEST, self._number << 2 | slot)
        native.wake(self.mapping, _PARK)  # a fence too: the reader's word is looked at after this

    # -- the reader's ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> int:
        """A `LatestValueState`."""
        return native.load32(self.mapping, _STATE)

    @property
    def mark(self) -> int:
        """A number that changes with each record and when the state does."""
        return native.load32(self.mapping, _NEWEST)

    def read(self) -> bytes | None:
        """Return a copy of the newest record, None before the first. Raises RemoteProtocolError, SegmentError."""
        slot = self._claim()
        if slot is None:
            self.mapping.check()
            return None
        try:
            start = self.start_of(slot)
            length, _ = _RECORD.unpack_from(self.mapping, start)
            if length > self.slot_bytes - _RECORD.size:
                raise RemoteProtocolError(f"{self.path}: a record of {length} bytes", backend="shm", hint=_HINT)
            record = bytes(self.memory[start + _RECORD.size : start + _RECORD.size + length])
        finally:
            native.store32(self.mapping, _READING, 0)
        if self.mapping.is_lost:
            raise self.mapping.error()
        return record

    def wait(self, mark: int, strategy: int, timeout_ns: int) -> int:
        """Wait until `mark` has changed: 1, or Result.TIMED_OUT.

        Raises SegmentError when the file was truncated meanwhile.
        """
        result = native.wait32(
            self.mapping, _NEWEST, mark, park=_PARK, strategy=strategy, peer=PEER_WAKES, timeout_ns=timeout_ns
        )
        if result != 1:
            self.mapping.check()
        return result

    def _claim(self) -> int | None:
        mapping = self.mapping
        for _ in range(_TRIES):
            newest = native.load32(mapping, _NEWEST)
            if newest == 0:
                return None
            slot = newest & 3
            if slot >= _SLOTS:
                raise RemoteProtocolError(f"{self.path}: slot {slot} of {_SLOTS}", backend="shm", hint=_HINT)
            native.store32(mapping, _READING, slot + 1)
            native.wake(mapping, _FENCE)
            if native.load32(mapping, _NEWEST) == newest:
                return slot
        native.store32(mapping, _READING, 0)
        raise RemoteProtocolError(f"{self.path} changes faster than it can be read", backend="shm", hint=_HINT)


_HINT = "the peer is broken; connect again"
