"""The first bytes of our own buffers, by which a reader knows all places at once.

    head   [u32 root offset] (4 zeros where alignment wants them) vtable [i32 distance back to it]

Rule 1: a class's fields always have the same places; what is absent leaves a gap, and a zero in the vtable. So a table
        is one `struct`, and its vtable follows from `key`: the bits of the fields that may be absent and are not.
Rule 2: heads and vtables are kept once made, up to a limit: a peer that sends ever new ones must not fill our memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lucky_transport.codec.parts import Unusual

__all__ = ["Heads", "Place"]

#: Heads kept per message class.
_KEPT = 256

K = TypeVar("K", int, bytes)
V = TypeVar("V", int, bytes)


class _Kept(dict[K, V]):
    """What `make` returns for a key, kept for the next time."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) < _KEPT:
            self[key] = value
        return value


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies in the table, 0 = nowhere; `bit` is its bit in `key`, 0 = it is never absent."""

    at: int
    bit: int


class Heads:
    """Heads and vtables of one class; `size` and `alignment` are its table's.

    `vtables[key]` are the bytes of a vtable, padded to 4; `keys[vtable]` the way back (unpadded, `vtable_size` bytes).
    `heads[key * 8 + pad]` are the bytes of a head, `pad` (0 or 4) the zeros in it; `head_keys[head]` is the way back.
    The way back raises Unusual for bytes that are none of ours.
    """

    def __init__(self, places: Sequence[Place], size: int, alignment: int) -> None:
        self._places = tuple(places)
        self.size = size
        self.alignment = alignment
        self.vtable_size = 4 + 2 * len(places)
        self.padded_vtable_size = self.vtable_size + 3 & ~3
        self.vtables = _Kept[int, bytes](self._vtable)
        self.keys = _Kept[bytes, int](self._key)
        self.heads = _Kept[int, bytes](self._head)
        self.head_keys = _Kept[bytes, int](self._head_key)

    def _vtable(self, key: int) -> bytes:
        places = [place.at if not place.bit or key & place.bit else 0 for place in self._places]
        vtable = struct.pack(f"<{2 + len(places)}H", self.vtable_size, self.size, *places)
        return vtable.ljust(self.padded_vtable_size, b"\0")

    def _key(self, vtable: bytes) -> int:
        if len(vtable) != self.vtable_size:
            raise Unusual
        places = struct.unpack_from(f"<{len(self._places)}H", vtable, 4)
        key = sum(place.bit for place, at in zip(self._places, places, strict=True) if at)
        if self._vtable(key)[: self.vtable_size] != vtable:
            raise Unusual
        return key

    def _head(self, key_and_pad: int) -> bytes:
        pad = key_and_pad & 7
        way = self.padded_vtable_size
        return struct.pack(f"<I{pad}x", 4 + pad + way) + self._vtable(key_and_pad >> 3) + struct.pack("<i", way)

    def _head_key(self, head: bytes) -> int:
        start = len(head) - 4 - self.padded_vtable_size
        if start not in (4, 8):
            raise Unusual
        key = self._key(head[start : start + self.vtable_size])
        if self._head(key << 3 | start - 4) != head:
            raise Unusual
        return key
