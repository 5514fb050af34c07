"""What compiled encoders and decoders call: packers by length, vectors of strings and tables, maps to scalars.

When writing, `end` is where the next part will lie, always a multiple of 4; each part is padded to one. When reading,
each part must lie behind the one before, so nothing is read twice, however hostile the buffer. Anything else raises
SlowPath, or whatever Python raises by itself.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

from lucky_transport.codec.layout import CODES, WIDTHS, SlowPath
from lucky_transport.lazy_dict import LazyDict

#: Appends a table and its parts. Arguments: message, the table's position, list of parts, where vtables lie. Returns
#: where the next part will lie.
WriteTable = Callable[[Any, int, "list[Any]", "dict[bytes, int]"], int]
#: Arguments: buffer, its size, position of the table. Returns the message and where its last part ends.
ReadTable = Callable[[bytes, int, int], tuple[Any, int]]

#: What numpy calls these scalars.
_ARRAY_CODES = {"?": "|b", "f": "<f", "d": "<f", "i": "<i", "I": "<u", "Q": "<u"}

#: Longest text or vector whose packer is kept.
_KEPT_LENGTH = 1024

_PADDING = tuple(bytes(count) for count in range(8))
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_unpack_u32 = _U32.unpack_from


def _by_length(make: Callable[[int], Callable[..., Any]]) -> LazyDict[int, Callable[..., Any]]:
    """Return functions by length; those for long content are not kept."""
    return LazyDict(make, keeps=lambda length: length <= _KEPT_LENGTH)


#: _STRING[n](n, utf8) is a string of n bytes: length, content, at least one zero.
_STRING = _by_length(lambda length: struct.Struct(f"<I{length + 4 & ~3}s").pack)


class ScalarVector:
    """Vectors of one kind of scalars: `pack[n](n, *values)` with padding, `unpack[n](data, at)` of the values alone."""

    def __init__(self, kind: str) -> None:
        code, width = CODES[kind], WIDTHS[kind]
        self.pack = _by_length(lambda count: struct.Struct(f"<I{count}{code}{-count * width & 3}x").pack)
        self.unpack = _by_length(lambda count: struct.Struct(f"<{count}{code}").unpack_from)
        self._array = f"{_ARRAY_CODES[code]}{width}"

    def listed(self, values: Any) -> list[Any] | bytes:
        """Return a tuple or a one-dimensional array as a list; an array of just these scalars as its bytes."""
        if getattr(values, "ndim", 0) == 1 and values.dtype.str == self._array:
            return values.tobytes()
        return _as_list(values)


_OFFSETS = ScalarVector("u32")


def _bools() -> frozenset[type]:
    """Return the types of a bool; no value is of NumPy's where nothing has imported it."""
    return frozenset((bool, getattr(sys.modules.get("numpy"), "bool_", bool)))


def _as_list(values: Any) -> list[Any]:
    """Return a tuple or a one-dimensional array as a list."""
    if isinstance(values, tuple):
        return list(values)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if getattr(values, "ndim", 0) == 1:
        return values.tolist()
    raise SlowPath


def _as_bytes(value: Any) -> bytearray | memoryview:
    """Return a bytearray or the bytes under a memoryview, not copied."""
    if isinstance(value, bytearray):
        return value
    if isinstance(value, memoryview) and value.c_contiguous:
        return value.cast("B")
    raise SlowPath


def _as_bool(value: Any) -> bool:
    """Return a bool, numpy's or another integer as a bool."""
    if isinstance(value, int) or type(value) in _bools():
        return bool(value)  # pyright: ignore[reportUnknownArgumentType]
    raise SlowPath


def _check_bools(values: list[Any] | dict[str, Any] | bytes) -> None:
    """Raise SlowPath unless these are bools, or the bytes of an array of bools: packing takes anything for one."""
    if not isinstance(values, bytes):
        each = values.values() if isinstance(values, dict) else values
        if not _bools().issuperset(map(type, each)):
            raise SlowPath


def _offset_vector(offsets: list[int]) -> bytes:
    count = len(offsets)
    return _OFFSETS.pack[count](count, *offsets)


def _write_strings(values: list[Any], end: int, out: list[Any]) -> int:
    """Append a vector of strings."""
    place, reserved = end, len(out)
    out.append(b"")
    end += 4 + 4 * len(values)
    offsets: list[int] = []
    for value in values:
        raw = str.encode(value)
        length = len(raw)
        place += 4
        offsets.append(end - place)
        out.append(_STRING[length](length, raw))
        end += length + 8 & -4
    out[reserved] = _offset_vector(offsets)
    return end


def _write_tables(
    values: list[Any], end: int, out: list[Any], vtables: dict[bytes, int], write: WriteTable, alignment: int
) -> int:
    """Append a vector of tables."""
    place, reserved = end, len(out)
    out.append(b"")
    end += 4 + 4 * len(values)
    offsets: list[int] = []
    for value in values:
        if end % alignment:
            out.append(_PADDING[4])
            end += 4
        place += 4
        offsets.append(end - place)
        end = write(value, end, out, vtables)
    out[reserved] = _offset_vector(offsets)
    return end


def _read_strings(data: bytes, size: int, at: int) -> tuple[list[str], int]:
    """Return the vector of strings at `at` and where the last one ends."""
    place, offsets, end = _read_offsets(data, size, at)
    texts: list[str] = []
    for offset in offsets:
        start = place + offset
        place += 4
        if start < end or start & 3:
            raise SlowPath
        (length,) = _unpack_u32(data, start)
        start += 4
        end = start + length
        if data[end]:
            raise SlowPath
        texts.append(data[start:end].decode())
    return texts, end


def _read_tables(data: bytes, size: int, at: int, read: ReadTable) -> tuple[list[Any], int]:
    """Return the vector of tables at `at` and where the last part ends."""
    place, offsets, end = _read_offsets(data, size, at)
    messages: list[Any] = []
    for offset in offsets:
        start = place + offset
        place += 4
        if start < end or start & 3:
            raise SlowPath
        message, end = read(data, size, start)
        messages.append(message)
    return messages, end


def _read_offsets(data: bytes, size: int, at: int) -> tuple[int, tuple[int, ...], int]:
    """Return the place of the first offset, the offsets, and where they end."""
    (count,) = _unpack_u32(data, at)
    place = at + 4
    end = place + 4 * count
    if end > size:
        raise SlowPath
    return place, _OFFSETS.unpack[count](data, place), end


class ScalarMap:
    """Maps from text to one kind of scalars, entry by entry in one go: every step brings rewards by term.

    entry    [i32 distance to the vtable] [u32 offset of the key] value, padding    and right behind it the key
    """

    def __init__(self, kind: str) -> None:
        code, width = CODES[kind], WIDTHS[kind]
        self._alignment = max(4, width)
        form = f"<iI{code}{-width & 3}x"
        self._size = struct.calcsize(form)
        self._vtable = struct.pack("<4H", 8, self._size, 4, 8)
        self._unpack = struct.Struct(form).unpack_from
        self._pack = _by_length(lambda length: struct.Struct(f"{form}I{length + 4 & ~3}s").pack)

    def write(self, mapping: dict[str, Any], end: int, out: list[Any], vtables: dict[bytes, int]) -> int:
        """Append the vector of entries, sorted by key; return where the next part will lie."""
        size, alignment, pack = self._size, self._alignment, self._pack
        place, reserved = end, len(out)
        out.append(b"")
        end += 4 + 4 * len(mapping)
        vtable_at = vtables.get(self._vtable)
        if vtable_at is None:
            vtable_at = vtables[self._vtable] = end
            out.append(self._vtable)
            end += 8
        offsets: list[int] = []
        for key, value in sorted(mapping.items()):
            if end % alignment:
                out.append(_PADDING[4])
                end += 4
            raw = str.encode(key)
            length = len(raw)
            place += 4
            offsets.append(end - place)
            out.append(pack[length](end - vtable_at, size - 4, value, length, raw))
            end += size + (length + 8 & -4)
        out[reserved] = _offset_vector(offsets)
        return end

    def read(self, data: bytes, size: int, at: int) -> tuple[dict[str, Any], int]:
        """Return the map at `at` and where its last key ends."""
        place, offsets, end = _read_offsets(data, size, at)
        mapping: dict[str, Any] = {}
        known = -1
        for offset in offsets:
            start = place + offset
            place += 4
            if start < end or start & 3:
                raise SlowPath
            distance, key_at, value = self._unpack(data, start)
            vtable_at = start - distance
            if vtable_at != known:
                if vtable_at < 0 or vtable_at & 1 or data[vtable_at : vtable_at + 8] != self._vtable:
                    raise SlowPath
                known = vtable_at
            key_at += start + 4
            if key_at < start + self._size or key_at & 3:
                raise SlowPath
            (length,) = _unpack_u32(data, key_at)
            key_at += 4
            end = key_at + length
            if data[end]:
                raise SlowPath
            mapping[data[key_at:end].decode()] = value
        if len(mapping) < len(offsets):
            raise SlowPath
        return mapping, end


#: By the names that generated code uses.
NAMES: dict[str, Any] = {
    "PADDING": _PADDING,
    "STRING": _STRING,
    "SlowPath": SlowPath,
    "as_bool": _as_bool,
    "as_bytes": _as_bytes,
    "as_list": _as_list,
    "check_bools": _check_bools,
    "encode_text": str.encode,
    "join": b"".join,
    "new": object.__new__,
    "pack_i32": _I32.pack,
    "pack_u32": _U32.pack,
    "read_strings": _read_strings,
    "read_tables": _read_tables,
    "unpack_i32": _I32.unpack_from,
    "unpack_u32": _U32.unpack_from,
    "write_strings": _write_strings,
    "write_tables": _write_tables,
}
