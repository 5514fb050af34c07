"""A file of image slots beside a segment: written by the engine, read by one client.

    byte 0      magic, version, slots, 0 (u32 each), bytes per slot (u64)
    byte 32     park word of an engine that waits for a slot (u32)
    byte 64     per slot 128 bytes: its number (u32 at 0) and its owner (u32 at 4), on one line, as one side uses both
    byte 4096   the slots, each at a multiple of 4096

A slot has one owner at a time: 0 is the engine, any other value the client, from the message that names the slot until
the client writes 0. Neither touches the other's slots, so no fence and no second try is needed. The number says what a
slot holds: odd while it is written, 2 n for the n-th whole image. A client compares it with the message's before and
after copying, which detects an engine that writes into a slot it does not own. Sizes are checked once, against the
file's; all positions follow from them.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Protocol

from lucky_transport.errors import SegmentError
from lucky_transport.shm.atomics import PEER_PARKS, PEER_WAKES, implementation
from lucky_transport.shm.mapping import Mapping, allocate, map_file
from lucky_transport.shm.private_file import open_private, remove_private

__all__ = ["SUFFIX", "ImageFile", "SlotWords", "remove_images"]

#: What follows a segment's name in the names of its files of images, and of sessions (`look_file`).
SUFFIX = re.compile(r"\.(images|looks)\.[0-9]{1,10}")

_MAGIC = 0x4D494B4C  # "LKIM"
_VERSION = 2
_HEAD = struct.Struct("<IIIIQ")
_WORDS, _WORDS_STEP, _OWNER = 64, 128, 4
_DATA = 4096
_PARK = 32
_MAX_SLOTS = (_DATA - _WORDS) // _WORDS_STEP


def _path(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}.images.{number}")


def _total(slots: int, slot_bytes: int) -> int:
    return _DATA + slots * slot_bytes


class SlotWords(Protocol):
    """The words of one slot; each of these is a single call of the native module.

    number: what lies in the slot. owner: 0 when it is the engine's. take(number): say that the image of that number
    is being written to it; False, and nothing is changed, when the client owns it. hand_over(number): give it to the
    client, with everything written into it before. give_back(number): give it back to the engine if it is still
    owned as that, and wake the engine when it waits for one.
    """

    def number(self) -> int: ...

    def owner(self) -> int: ...

    def take(self, number: int, /) -> bool: ...

    def hand_over(self, number: int, /) -> None: ...

    def give_back(self, number: int, /) -> None: ...


class ImageFile:
    """One mapped file; `number` names it in messages. Made by `create` and `open`.

    mapping: tells whether the file was truncated. memory: all of it, writable.
    slot_bytes: the longest image that fits. words: of each slot.
    """

    __slots__ = (
        "_copied",
        "_shown",
        "_wait",
        "mapping",
        "memory",
        "number",
        "path",
        "slot_bytes",
        "slots",
        "words",
    )

    def __init__(self, path: Path, number: int, mapping: Mapping, slots: int, slot_bytes: int, native: bool) -> None:
        module = implementation(native)
        self.path = path
        self.number = number
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.memory = memoryview(mapping)
        self.mapping = mapping
        self.words: list[SlotWords] = [
            module.ImageSlot(mapping, number=word, owner=word + _OWNER, park=_PARK)
            for word in range(_WORDS, _WORDS + slots * _WORDS_STEP, _WORDS_STEP)
        ]
        self._wait = module.wait32
        self._copied = module.copied
        self._shown: dict[int, memoryview] = {}

    @classmethod
    def create(cls, base: Path, number: int, slots: int, least_bytes: int, *, native: bool = True) -> ImageFile:
        """Make the file number `number` of the segment at `base`, for images of up to `least_bytes` or a bit more.

        Raises NoSpace, FileExistsError, SegmentError when the system refuses.
        """
        if not 1 <= slots <= _MAX_SLOTS:
            raise ValueError(f"{slots} slots: expected 1 to {_MAX_SLOTS}")
        slot_bytes = max(least_bytes + _DATA - 1 & -_DATA, _DATA)
        path = _path(base, number)
        hint = "ask for smaller images or fewer streams at once"
        mapping = allocate(path, _total(slots, slot_bytes), f"a file of {slots} images", hint)
        _HEAD.pack_into(mapping, 0, _MAGIC, _VERSION, slots, 0, slot_bytes)
        return cls(path, number, mapping, slots, slot_bytes, native)

    @classmethod
    def open(cls, base: Path, number: int, *, native: bool = True) -> ImageFile:
        """Map a file of images. Raises SegmentError when it is gone, foreign, damaged or not as large as it says."""
        path = _path(base, number)
        try:
            fd = open_private(path)
        except FileNotFoundError as error:
            raise SegmentError(
                f"the images in {path} cannot be opened: {error.strerror}",
                backend="shm",
                hint="the engine may have closed; connect again",
            ) from error
        try:
            size = os.fstat(fd).st_size
            if size < _DATA:
                raise SegmentError(f"{path}: {size} bytes are no file of images", backend="shm", hint="connect again")
            mapping = map_file(fd, size, path)
        finally:
            os.close(fd)
        magic, version, slots, _, slot_bytes = _HEAD.unpack(mapping[: _HEAD.size])
        fits = 1 <= slots <= _MAX_SLOTS and slot_bytes % _DATA == 0 and _total(slots, slot_bytes) == len(mapping)
        if magic != _MAGIC or version != _VERSION or not fits:
            raise SegmentError(
                f"{path}: magic {magic:#x}, version {version}, {slots} slots of {slot_bytes} bytes in {len(mapping)}, "
                f"expected {_MAGIC:#x}, version {_VERSION} and sizes that fit",
                backend="shm",
                hint="install the same version on both sides",
            )
        return cls(path, number, mapping, slots, slot_bytes, native)

    def bytes_of(self, slot: int, length: int) -> memoryview:
        """Return the first `length` bytes of a slot, writable; they keep the mapping alive."""
        start = _DATA + slot * self.slot_bytes
        return self.memory[start : start + length]

    def shown(self, slot: int, length: int) -> memoryview:
        """Return the same, read-only; it may be the view that was returned before."""
        view = self._shown.get(slot)
        if view is None or len(view) != length:
            self._shown[slot] = view = self.bytes_of(slot, length).toreadonly()
        return view

    def copied(self, slot: int, length: int) -> bytes:
        """Return the same as a copy; other threads run meanwhile, where the native module is in use."""
        return self._copied(self.shown(slot, length))

    def wait_while_owned(self, slot: int, owner: int, strategy: int, timeout_ns: int) -> None:
        """Wait until the slot is given back by `owner`, as that waiting strategy does, or for that long."""
        at = _WORDS + slot * _WORDS_STEP + _OWNER
        peer = PEER_WAKES | PEER_PARKS
        self._wait(self.mapping, at, owner, park=_PARK, strategy=strategy, peer=peer, pidfd=-1, timeout_ns=timeout_ns)

    def unlink(self) -> None:
        """Remove the file; what is mapped stays valid. Idempotent."""
        remove_private(self.path)


def remove_images(base: Path) -> None:
    """Remove all files of images and sessions of the segment at `base`, whose engine is gone or closing.

    What another user planted under such a name stays.
    """
    for path in base.parent.glob(f"{base.name}.*"):
        if SUFFIX.fullmatch(path.name[len(base.name) :]):
            remove_private(path)
