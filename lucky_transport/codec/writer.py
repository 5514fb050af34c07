"""Appends the parts of a FlatBuffers buffer: strings, byte vectors, scalar vectors, vectors of offsets.

    buffer   [u32 root offset] table, then everything it refers to, parents before children
    string   [u32 length] UTF-8 bytes, NUL          vector   [u32 count] elements

Rule 1: an offset is unsigned and counts from its own place, so what is referred to always lies behind it.
Rule 2: all alignment counts from the start of `out`, which includes the prefix that will stand before the buffer.
Rule 3: a byte vector's content starts at a multiple of 8, so that a buffer nested in it can be read in place.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.scalar import CODES, WIDTHS, first_misfit
from lucky_transport.codec.structs import Inline

__all__ = ["MAX_DEPTH", "Writer"]

#: Tables within tables; FlatBuffers' own verifiers stop at 64 too.
MAX_DEPTH = 64

_U32 = struct.Struct("<I")
_PADDING = tuple(bytes(count) for count in range(8))


class Writer:
    """A buffer in the making; `prefix_bytes` stand before it where it will be read (see Rule 2)."""

    __slots__ = ("depth", "out", "prefix_bytes", "vtables")

    def __init__(self, prefix_bytes: int = 0) -> None:
        self.prefix_bytes = prefix_bytes
        self.out = bytearray(prefix_bytes + 4)
        self.vtables: dict[bytes, int] = {}
        self.depth = 0

    def finish(self, root: int) -> bytes:
        """Return the buffer without its prefix; `root` is the position of the root table."""
        _U32.pack_into(self.out, self.prefix_bytes, root - self.prefix_bytes)
        return bytes(memoryview(self.out)[self.prefix_bytes :])

    def pad(self, alignment: int, ahead: int = 0) -> None:
        """Append zeros until what follows `ahead` further bytes starts at a multiple of `alignment`."""
        self.out += _PADDING[-(len(self.out) + ahead) % alignment]

    def text(self, value: Any) -> int:
        """Append a string and return its position."""
        if not isinstance(value, str):
            raise Misfit(f"{reprlib.repr(value)} is {type(value).__name__}, expected str", TypeError)
        try:
            raw = value.encode()
        except UnicodeEncodeError as error:
            raise Misfit(f"{reprlib.repr(value)} is no legal text: {error.reason} at {error.start}") from error
        self.pad(4)
        start = len(self.out)
        self.out += _U32.pack(len(raw)) + raw + b"\0"
        return start

    def blob(self, value: Any) -> int:
        """Append a byte vector and return its position."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise Misfit(f"{reprlib.repr(value)} is {type(value).__name__}, expected bytes", TypeError)
        raw = bytes(cast("bytes | bytearray", value))
        self.pad(8, ahead=4)
        start = len(self.out)
        self.out += _U32.pack(len(raw)) + raw
        return start

    def scalars(self, kind: str, values: Sequence[Any]) -> int:
        """Append a vector of scalars of that kind, contiguous and aligned, and return its position."""
        code = CODES[kind]
        _refuse_text(values)
        try:
            packed = struct.pack(f"<I{len(values)}{code}", len(values), *values)
        except (struct.error, OverflowError, TypeError) as error:
            places = [f"[{index}]" for index in range(len(values))]
            found = first_misfit(places, [kind] * len(values), values)
            raise found or Misfit(f"{reprlib.repr(values)}: {error}", TypeError) from error
        self.pad(max(4, WIDTHS[kind]), ahead=4)
        start = len(self.out)
        self.out += packed
        return start

    def structs(self, values: Sequence[Any], inline: Inline) -> int:
        """Append a vector of structs, contiguous and aligned, and return its position."""
        _refuse_text(values)
        packed = inline.pack_all(values)
        self.pad(max(4, inline.alignment), ahead=4)
        start = len(self.out)
        self.out += _U32.pack(len(values)) + packed
        return start

    def vector(self, values: Iterable[Any], write: Callable[[Writer, Any], int]) -> int:
        """Append a vector of offsets and, behind it, what `write` makes of each value; return the vector's position."""
        _refuse_text(values)
        values = list(values)
        self.pad(4)
        start = len(self.out)
        self.out += bytes(4 + 4 * len(values))
        offsets: list[int] = []
        for index, value in enumerate(values):
            try:
                offsets.append(write(self, value) - (start + 4 + 4 * index))
            except Misfit as misfit:
                raise misfit.within(f"[{index}]") from misfit.__cause__
        struct.pack_into(f"<I{len(offsets)}I", self.out, start, len(offsets), *offsets)
        return start


def _refuse_text(values: Any) -> None:
    """A string is a sequence too; sent as one it would silently become a list of its characters."""
    if isinstance(values, str | bytes | bytearray):
        raise Misfit(f"{reprlib.repr(values)} is {type(values).__name__}, expected a list", TypeError)
