"""What the code that `template` generates calls: packers by length, vectors of texts, tables and structs.

Rule 1: what is not just as expected raises `Unusual` or what Python raises by itself; the caller then starts again on
        the generic way, which knows more and tells what is wrong.
Rule 2: when writing, `end` is where the next part will lie, always a multiple of 4; each part is padded to one.
Rule 3: when reading, each part must lie behind the one before. So nothing is read twice, however hostile the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from lucky_transport.codec.scalar import CODES, WIDTHS

__all__ = [
    "PADDING",
    "TEXT",
    "U32",
    "ByLength",
    "Put",
    "Scalars",
    "Take",
    "Unusual",
    "as_bytes",
    "as_list",
    "put_offsets",
    "put_tables",
    "put_texts",
    "take_offsets",
    "take_tables",
    "take_texts",
]

#: Appends a table and its parts. Arguments: message, the table's position, list of parts, where vtables lie.
Put = Callable[[Any, int, "list[Any]", "dict[bytes, int]"], int]
#: Arguments: buffer, its size, position of the table; returns the message and where its last part ends.
Take = Callable[[bytes, int, int], tuple[Any, int]]

#: What numpy calls these scalars.
_ARRAY_CODES = {"f": "f", "d": "f", "i": "i", "I": "u", "Q": "u"}

#: Longest text or vector whose packer is kept.
_KEPT_LENGTH = 1024

PADDING = tuple(bytes(count) for count in range(8))
U32 = struct.Struct("<I")
_unpack_u32 = U32.unpack_from


class Unusual(Exception):
    """Something that the short way does not deal with."""


class ByLength(dict[int, Callable[..., Any]]):
    """Functions by length, made when first needed; those for long content are not kept."""

    def __init__(self, make: Callable[[int], Callable[..., Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, length: int) -> Callable[..., Any]:
        function = self._make(length)
        if length <= _KEPT_LENGTH:
            self[length] = function
        return function


#: TEXT[n](n, utf8) is a string of n bytes: length, content, at least one zero.
TEXT = ByLength(lambda length: struct.Struct(f"<I{length + 4 & ~3}s").pack)


class Scalars:
    """Vectors of one kind of scalars: `pack[n](n, *values)` with padding, `unpack[n](data, at)` of the values alone."""

    def __init__(self, kind: str) -> None:
        code, width = CODES[kind], WIDTHS[kind]
        self.pack = ByLength(lambda count: struct.Struct(f"<I{count}{code}{-count * width & 3}x").pack)
        self.unpack = ByLength(lambda count: struct.Struct(f"<{count}{code}").unpack_from)
        self._array = "|b1" if width == 1 else f"<{_ARRAY_CODES[code]}{width}"

    def listed(self, values: Any) -> list[Any] | bytes:
        """Return a tuple or a one-dimensional array as a list; an array of just these scalars as its bytes."""
        if getattr(values, "ndim", 0) == 1 and values.dtype.str == self._array:
            return values.tobytes()
        return as_list(values)


_OFFSETS = Scalars("u32")


def as_list(values: Any) -> list[Any]:
    """Return a tuple or a one-dimensional array as a list."""
    if isinstance(values, tuple):
        return list(values)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if getattr(values, "ndim", 0) == 1:
        return values.tolist()
    raise Unusual


def as_bytes(value: Any) -> bytearray | memoryview:
    """Return a bytearray or the bytes under a memoryview, not copied."""
    if isinstance(value, bytearray):
        return value
    if isinstance(value, memoryview) and value.c_contiguous:
        return value.cast("B")
    raise Unusual


def put_offsets(offsets: list[int]) -> bytes:
    """Return a vector of offsets."""
    count = len(offsets)
    return _OFFSETS.pack[count](count, *offsets)


def put_texts(values: list[Any], end: int, out: list[Any]) -> int:
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
        out.append(TEXT[length](length, raw))
        end += length + 8 & -4
    out[reserved] = put_offsets(offsets)
    return end


def put_tables(values: list[Any], end: int, out: list[Any], vtables: dict[bytes, int], put: Put, alignment: int) -> int:
    """Append a vector of tables."""
    place, reserved = end, len(out)
    out.append(b"")
    end += 4 + 4 * len(values)
    offsets: list[int] = []
    for value in values:
        if end % alignment:
            out.append(PADDING[4])
            end += 4
        place += 4
        offsets.append(end - place)
        end = put(value, end, out, vtables)
    out[reserved] = put_offsets(offsets)
    return end


def take_texts(data: bytes, size: int, at: int) -> tuple[list[str], int]:
    """Return the vector of strings at `at` and where the last one ends."""
    place, offsets, end = take_offsets(data, size, at)
    texts: list[str] = []
    for offset in offsets:
        start = place + offset
        place += 4
        if start < end or start & 3:
            raise Unusual
        (length,) = _unpack_u32(data, start)
        start += 4
        end = start + length
        if data[end]:
            raise Unusual
        texts.append(data[start:end].decode())
    return texts, end


def take_tables(data: bytes, size: int, at: int, take: Take) -> tuple[list[Any], int]:
    """Return the vector of tables at `at` and where the last part ends."""
    place, offsets, end = take_offsets(data, size, at)
    messages: list[Any] = []
    for offset in offsets:
        start = place + offset
        place += 4
        if start < end or start & 3:
            raise Unusual
        message, end = take(data, size, start)
        messages.append(message)
    return messages, end


def take_offsets(data: bytes, size: int, at: int) -> tuple[int, tuple[int, ...], int]:
    """Return the place of the first offset, the offsets, and where they end."""
    (count,) = _unpack_u32(data, at)
    place = at + 4
    end = place + 4 * count
    if end > size:
        raise Unusual
    return place, _OFFSETS.unpack[count](data, place), end
