"""Reads the parts of a FlatBuffers buffer that somebody else wrote, and believes nothing.

Rule 1: no byte is read before its place was checked against the buffer; a fault is a `Misfit` with place and values.
Rule 2: what is read in total is limited by the buffer's size. Offsets may legally share what they point to (a peer
        writes a repeated string once), but a small buffer must not unfold into an endless message.
Rule 3: alignment is checked up to 4 bytes; beyond that it depends on where the buffer lay, and `struct` does not care.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.scalar import CODES, WIDTHS
from lucky_transport.codec.structs import Inline

__all__ = ["Verifier"]

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")

#: Bytes that may be read from a buffer of n bytes: _ALLOWANCE + _UNFOLDING * n.
_ALLOWANCE = 1 << 16
_UNFOLDING = 8


class Verifier:
    """One buffer being read; `data` is a private copy that nobody else can change."""

    __slots__ = ("_budget", "data", "depth", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.depth = 0
        self._budget = _ALLOWANCE + _UNFOLDING * self.size

    def root(self) -> int:
        """Return the position of the root table."""
        if self.size < 8:
            raise Misfit(f"{self.size} bytes are no buffer; the smallest has 8")
        return self.follow(0, _U32.unpack_from(self.data, 0)[0])

    def follow(self, at: int, offset: int) -> int:
        """Return the position that an offset found at `at` points to: inside the buffer and 4-aligned."""
        target = at + offset
        if not offset or target & 3 or target + 4 > self.size:
            raise Misfit(
                f"offset {offset} at byte {at} points to byte {target}, expected a multiple of 4 below {self.size}"
            )
        return target

    def spend(self, count: int) -> None:
        """Count `count` bytes as read."""
        self._budget -= count
        if self._budget < 0:
            raise Misfit(
                f"the content unfolds to more than {_UNFOLDING} times the buffer's {self.size} bytes plus {_ALLOWANCE}"
            )

    def vtable(self, table: int) -> bytes:
        """Return the vtable of the table at `table` (a position from `follow`), at least its two sizes."""
        at = table - _I32.unpack_from(self.data, table)[0]
        if at & 1 or not 0 <= at <= self.size - 4:
            raise Misfit(f"the table at byte {table} has its vtable at byte {at}, the buffer has {self.size} bytes")
        length = _U16.unpack_from(self.data, at)[0]
        if length < 4 or length & 1 or at + length > self.size:
            raise Misfit(f"the vtable at byte {at} claims {length} bytes, {self.size - at} are left")
        return self.data[at : at + length]

    def extent(self, at: int, width: int) -> tuple[int, int]:
        """Return the start and count of the elements, `width` bytes each, of the vector at `at` (from `follow`)."""
        count = _U32.unpack_from(self.data, at)[0]
        start = at + 4
        if start + count * width > self.size:
            raise Misfit(
                f"the vector at byte {at} claims {count} elements of {width} bytes, {self.size - start} bytes are left"
            )
        self.spend(4 + count * width)
        return start, count

    def text(self, at: int) -> str:
        """Return the string at `at`."""
        start, count = self.extent(at, 1)
        end = start + count
        if end >= self.size or self.data[end]:
            raise Misfit(f"the string of {count} bytes at byte {at} has no terminating zero")
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError as error:
            raise Misfit(
                f"the string at byte {at} is not UTF-8: {error.reason} at byte {start + error.start}"
            ) from error

    def blob(self, at: int) -> bytes:
        """Return the byte vector at `at`."""
        start, count = self.extent(at, 1)
        return self.data[start : start + count]

    def scalars(self, kind: str, at: int) -> list[Any]:
        """Return the vector of scalars of that kind at `at`."""
        start, count = self.extent(at, WIDTHS[kind])
        return list(struct.unpack_from(f"<{count}{CODES[kind]}", self.data, start))

    def structs(self, inline: Inline, at: int) -> list[Any]:
        """Return the vector of structs at `at`."""
        start, count = self.extent(at, inline.size)
        return inline.unpack_all(self.data[start : start + count * inline.size])

    def vector(self, at: int, read: Callable[[Verifier, int], Any]) -> list[Any]:
        """Return what `read` makes of each place that the vector of offsets at `at` points to."""
        start, count = self.extent(at, 4)
        values: list[Any] = []
        for index, offset in enumerate(struct.unpack_from(f"<{count}I", self.data, start)):
            try:
                values.append(read(self, self.follow(start + 4 * index, offset)))
            except Misfit as misfit:
                raise misfit.within(f"[{index}]") from misfit.__cause__
        return values
