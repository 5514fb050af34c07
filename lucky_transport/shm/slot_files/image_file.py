"""A file of image slots beside a segment: written by the engine, read by one client.

    byte 0      magic, version, slots, 0 (u32 each), bytes per slot (u64)
    byte 32     park word of an engine that waits for a slot (u32)
    byte 64     per slot 128 bytes: its number (u32 at 0) and its owner (u32 at 4), on one line, as one side uses both
    byte 4096   the slots, each at a multiple of 4096

Sizes are checked once, against the file's; all positions follow from them.

A slot has one owner at a time: 0 is the engine, any other value the client, from the message that names the slot until
the client writes 0. Neither touches the other's slots, so no fence and no second try is needed. The number says what a
slot holds: odd while it is written, 2 n for the n-th whole image. A client compares it with the message's before and
after copying, which detects an engine that writes into a slot it does not own.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from lucky_transport import native
from lucky_transport.errors import SegmentError
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.files.mapping import Mapping, allocate, map_private
from lucky_transport.shm.files.private_file import remove_private
from lucky_transport.shm.wait import PEER_WAKES

#: What follows a segment's name in the names of its files of images.
SUFFIX = re.compile(r"\.images\.[0-9]{1,10}")

SLOTS_OFFSET = 4096
_ALIGNMENT = 4096
_HEAD = struct.Struct("<IIIIQ")
MAGIC, VERSION = 0x4D494B4C, 2  # "LKIM"
_WORDS, _WORDS_STEP, _OWNER = 64, 128, 4
_PARK = 32
_COUNTS = range(1, (SLOTS_OFFSET - _WORDS) // _WORDS_STEP + 1)


def _path(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}.images.{number}")


class ImageFile:
    """One mapped file; `number` names it in messages, `words` are those of each slot. Made by `create` and `open`.

    mapping: tells whether it was truncated.
    """

    __slots__ = ("_memory", "_shown", "mapping", "number", "path", "slot_bytes", "slots", "words")

    def __init__(self, path: Path, mapping: Mapping, slots: int, slot_bytes: int, number: int) -> None:
        self.path = path
        self.mapping = mapping
        self._memory = memoryview(mapping)
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.number = number
        self.words: list[native.ImageSlot] = [
            native.ImageSlot(mapping, number=word, owner=word + _OWNER, park=_PARK)
            for word in range(_WORDS, _WORDS + slots * _WORDS_STEP, _WORDS_STEP)
        ]
        self._shown: dict[int, memoryview] = {}

    @classmethod
    def create(cls, base: Path, number: int, slots: int, least_bytes: int) -> ImageFile:
        """Make the file number `number` of the segment at `base`, for images of up to `least_bytes` or a bit more.

        Raises NoSpace, FileExistsError, SegmentError when the system refuses.
        """
        if slots not in _COUNTS:
            raise ValueError(f"{slots} slots: expected {_COUNTS[0]} to {_COUNTS[-1]}")
        path = _path(base, number)
        slot_bytes = max(least_bytes + _ALIGNMENT - 1 & -_ALIGNMENT, _ALIGNMENT)
        hint = "ask for smaller images or fewer streams at once"
        mapping = allocate(path, SLOTS_OFFSET + slots * slot_bytes, "a file of images", hint)
        _HEAD.pack_into(mapping, 0, MAGIC, VERSION, slots, 0, slot_bytes)
        return cls(path, mapping, slots, slot_bytes, number)

    @classmethod
    def open(cls, base: Path, number: int) -> ImageFile:
        """Map a file of images. Raises SegmentError when it is gone, foreign, damaged or not as large as it says."""
        path = _path(base, number)
        try:
            mapping = map_private(path, SLOTS_OFFSET, " are no file of images", "connect again")
        except FileNotFoundError as error:
            raise SegmentError(
                f"the file of images {path} cannot be opened: {error.strerror}",
                backend="shm",
                hint="the engine may have closed, or run on another host; connect again",
            ) from error
        magic, version, slots, _, slot_bytes = _HEAD.unpack(mapping[: _HEAD.size])
        fits = slot_bytes and slot_bytes % _ALIGNMENT == 0 and SLOTS_OFFSET + slots * slot_bytes == len(mapping)
        if (magic, version) != (MAGIC, VERSION) or slots not in _COUNTS or not fits:
            raise SegmentError(
                f"{path}: magic {magic:#x}, version {version}, {slots} slots of {slot_bytes} bytes in {len(mapping)}, "
                f"expected {MAGIC:#x}, version {VERSION} and sizes that fit",
                backend="shm",
                hint="install the same version on both sides",
            )
        return cls(path, mapping, slots, slot_bytes, number)

    def unlink(self) -> None:
        """Remove the file; what is mapped stays valid. Idempotent."""
        remove_private(self.path)

    def bytes_of(self, slot: int, length: int) -> memoryview:
        """Return the first `length` bytes of a slot, writable; they keep the mapping alive."""
        start = SLOTS_OFFSET + slot * self.slot_bytes
        return self._memory[start : start + length]

    def shown(self, slot: int, length: int) -> memoryview:
        """Return the same, read-only; it may be the view that was returned before."""
        view = self._shown.get(slot)
        if view is None or len(view) != length:
            self._shown[slot] = view = self.bytes_of(slot, length).toreadonly()
        return view

    def copied(self, slot: int, length: int) -> bytes:
        """Return the same as a copy; other threads run meanwhile."""
        return native.copied(self.shown(slot, length))

    def wait_while_owned(self, slot: int, owner: int, strategy: int, timeout_ns: int) -> None:
        """Wait until the slot is given back by `owner`, as that waiting strategy does, or for that long."""
        at = _WORDS + slot * _WORDS_STEP + _OWNER
        native.wait32(self.mapping, at, owner, park=_PARK, strategy=strategy, peer=PEER_WAKES, timeout_ns=timeout_ns)


class WriterSlot:
    """One slot for the engine. taken: it is being written. view: what was handed out for that, last."""

    __slots__ = ("file", "index", "number", "posted_ns", "slot_bytes", "taken", "view", "words")

    def __init__(self, file: ImageFile, index: int) -> None:
        self.file = file
        self.index = index
        self.slot_bytes = file.slot_bytes
        self.words = file.words[index]
        self.number = 0
        self.posted_ns = 0
        self.taken = False
        self.view: memoryview = file.bytes_of(index, 0)

    @property
    def is_free(self) -> bool:
        """True when neither side uses it."""
        return not self.taken and not self.words.owner()

    def take(self, nbytes: int, number: int) -> bool:
        """Begin to write image `number`; False when the slot is in use."""
        if self.taken or not self.words.take(number):
            return False
        self.taken = True
        self.number = number
        if len(self.view) != nbytes:
            self.view = self.file.bytes_of(self.index, nbytes)
        return True

    def post(self, nbytes: int, now_ns: int) -> ImageRef:
        """Hand the image over to the client."""
        self.words.hand_over(self.number)
        self.posted_ns = now_ns
        self.taken = False
        return ImageRef(nbytes, self.file.number, self.index, self.number)


def remove_images(base: Path) -> None:
    """Remove all files of images of the segment at `base`, whose engine is gone or closing.

    What another user planted under such a name stays.
    """
    for path in base.parent.glob(f"{base.name}.*"):
        if SUFFIX.fullmatch(path.name[len(base.name) :]):
            remove_private(path)
