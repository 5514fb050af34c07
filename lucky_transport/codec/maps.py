"""Maps from text to a scalar, entry by entry in one go: rewards by term and the like come with every step.

    entry   [i32 way to the vtable] [u32 offset of the key] value, padding   and right behind it the key

Rule 1: entries are tables like all others (see `heads`): key and value always written, at bytes 4 and 8.
Rule 2: entries are sorted by their keys' bytes, which is the order of the keys' characters too.
"""

from __future__ import annotations

import struct
from typing import Any

from lucky_transport.codec.parts import PADDING, U32, ByLength, Unusual, put_offsets, take_offsets
from lucky_transport.codec.scalar import CODES, WIDTHS

__all__ = ["ScalarMap"]

_unpack_u32 = U32.unpack_from


class ScalarMap:
    """Writes and reads maps to one kind of scalars, as `put` and `take` of `parts` do with tables."""

    def __init__(self, kind: str) -> None:
        code, width = CODES[kind], WIDTHS[kind]
        self._alignment = max(4, width)
        form = f"<iI{code}{-width & 3}x"
        self._size = struct.calcsize(form)
        self._vtable = struct.pack("<4H", 8, self._size, 4, 8)
        self._unpack = struct.Struct(form).unpack_from
        self._pack = ByLength(lambda length: struct.Struct(f"{form}I{length + 4 & ~3}s").pack)

    def put(self, mapping: dict[str, Any], end: int, out: list[Any], vtables: dict[bytes, int]) -> int:
        """Append the vector of entries."""
        size, alignment, pack = self._size, self._alignment, self._pack
        place, reserved = end, len(out)
        out.append(b"")
        end += 4 + 4 * len(mapping)
        way = vtables.get(self._vtable)
        if way is None:
            way = vtables[self._vtable] = end
            out.append(self._vtable)
            end += 8
        offsets: list[int] = []
        for key, value in sorted(mapping.items()):
            if end % alignment:
                out.append(PADDING[4])
                end += 4
            raw = str.encode(key)
            length = len(raw)
            place += 4
            offsets.append(end - place)
            out.append(pack[length](end - way, size - 4, value, length, raw))
            end += size + (length + 8 & -4)
        out[reserved] = put_offsets(offsets)
        return end

    def take(self, data: bytes, size: int, at: int) -> tuple[dict[str, Any], int]:
        """Return the map at `at` and where its last key ends."""
        place, offsets, end = take_offsets(data, size, at)
        mapping: dict[str, Any] = {}
        known = -1
        for offset in offsets:
            start = place + offset
            place += 4
            if start < end or start & 3:
                raise Unusual
            way, key_at, value = self._unpack(data, start)
            way = start - way
            if way != known:
                if way < 0 or way & 1 or data[way : way + 8] != self._vtable:
                    raise Unusual
                known = way
            key_at += start + 4
            if key_at < start + self._size or key_at & 3:
                raise Unusual
            (length,) = _unpack_u32(data, key_at)
            key_at += 4
            end = key_at + length
            if data[end]:
                raise Unusual
            mapping[data[key_at:end].decode()] = value
        if len(mapping) < len(offsets):
            raise Unusual
        return mapping, end
