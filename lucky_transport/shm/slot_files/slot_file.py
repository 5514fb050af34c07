"""A mapped file of slots of one size: what image files and latest-value files have in common.

    byte 0      magic, version, slots, 0 (u32 each), bytes per slot (u64)
    byte 32     the words of this kind of file
    byte 4096   the slots, each at a multiple of 4096

Sizes are checked once, against the file's; all positions follow from them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import ClassVar

from lucky_transport.errors import SegmentError
from lucky_transport.shm.files.mapping import Mapping, allocate, map_private
from lucky_transport.shm.files.private_file import remove_private

_HEAD = struct.Struct("<IIIIQ")
SLOTS_OFFSET = 4096
_ALIGNMENT = 4096


class SlotFile:
    """One mapped file. mapping: tells whether it was truncated. memory: all of it, writable.

    A kind of file has a magic, a version, the numbers of slots that it may have, and a name for errors.
    """

    __slots__ = ("mapping", "memory", "path", "slot_bytes", "slots")

    MAGIC: ClassVar[int]
    VERSION: ClassVar[int]
    COUNTS: ClassVar[range]
    KIND: ClassVar[str]

    def __init__(self, path: Path, mapping: Mapping, slots: int, slot_bytes: int) -> None:
        self.path = path
        self.mapping = mapping
        self.memory = memoryview(mapping)
        self.slots = slots
        self.slot_bytes = slot_bytes

    @classmethod
    def allocate(cls, path: Path, slots: int, least_bytes: int, hint: str) -> tuple[Mapping, int, int]:
        """Make the file with slots of `least_bytes` or a bit more; return its mapping, slots and bytes per slot.

        Raises NoSpace (with `hint`), FileExistsError, SegmentError when the system refuses.
        """
        if slots not in cls.COUNTS:
            raise ValueError(f"{slots} slots: expected {cls.COUNTS[0]} to {cls.COUNTS[-1]}")
        slot_bytes = max(least_bytes + _ALIGNMENT - 1 & -_ALIGNMENT, _ALIGNMENT)
        mapping = allocate(path, SLOTS_OFFSET + slots * slot_bytes, f"a {cls.KIND}", hint)
        _HEAD.pack_into(mapping, 0, cls.MAGIC, cls.VERSION, slots, 0, slot_bytes)
        return mapping, slots, slot_bytes

    @classmethod
    def map(cls, path: Path) -> tuple[Mapping, int, int]:
        """Map a file; return its mapping, slots and bytes per slot.

        Raises SegmentError when it is gone, foreign, damaged or not as large as it says.
        """
        try:
            mapping = map_private(path, SLOTS_OFFSET, f" are no {cls.KIND}", "connect again")
        except FileNotFoundError as error:
            raise SegmentError(
                f"the {cls.KIND} {path} cannot be opened: {error.strerror}",
                backend="shm",
                hint="the engine may have closed, or run on another host; connect again",
            ) from error
        magic, version, slots, _, slot_bytes = _HEAD.unpack(mapping[: _HEAD.size])
        fits = slot_bytes and slot_bytes % _ALIGNMENT == 0 and SLOTS_OFFSET + slots * slot_bytes == len(mapping)
        if (magic, version) != (cls.MAGIC, cls.VERSION) or slots not in cls.COUNTS or not fits:
            raise SegmentError(
                f"{path}: magic {magic:#x}, version {version}, {slots} slots of {slot_bytes} bytes in {len(mapping)}, "
                f"expected {cls.MAGIC:#x}, version {cls.VERSION} and sizes that fit",
                backend="shm",
                hint="install the same version on both sides",
            )
        return mapping, slots, slot_bytes

    @classmethod
    def slots_in(cls, head: bytes) -> int:
        """Return how many slots a file with these first SLOTS_OFFSET bytes has, 0 for another kind of file."""
        if len(head) < SLOTS_OFFSET:
            return 0
        magic, version, slots, _, _ = _HEAD.unpack(head[: _HEAD.size])
        return slots if (magic, version) == (cls.MAGIC, cls.VERSION) and slots in cls.COUNTS else 0

    def start_of(self, slot: int) -> int:
        """Return the byte at which a slot begins."""
        return SLOTS_OFFSET + slot * self.slot_bytes

    def unlink(self) -> None:
        """Remove the file; what is mapped stays valid. Idempotent."""
        remove_private(self.path)
