"""The generic reader: any legal layout of a message, such as a newer peer's, verified byte by byte.

Fields that this side does not know are skipped, absent ones have their defaults. What is read in total is limited by
the buffer's size: offsets may legally share what they point to, but a small buffer must not unfold into an endless
message. Alignment is checked up to 4 bytes; beyond that it depends on where the buffer lay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast

from lucky_transport.codec.layout import (
    CODES,
    KEPT_LAYOUTS,
    WIDTHS,
    WRAPPED_BYTES,
    entry_of,
    slot_of,
    struct_of,
)
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.fields import MAX_DEPTH, Field, fields_of, member

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")

#: Bytes that may be read from a buffer of n bytes: _ALLOWANCE + _UNFOLDING * n.
_ALLOWANCE = 1 << 16
_UNFOLDING = 8


def decode_generic(cls: type[Any], data: bytes) -> Any:
    """Return the message of class `cls` that a buffer holds.

    Raises RemoteProtocolError, with the field's path and the offending values, for anything but a sound buffer.
    """
    buffer = _Buffer(cls.__name__, data)
    return _table_of(cls).read(buffer, buffer.root())


class _Buffer:
    """A buffer being read. No byte is read before its place was checked; `path` leads to the field being read."""

    __slots__ = ("_budget", "data", "depth", "path", "size")

    def __init__(self, name: str, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.depth = 0
        self.path = [name]
        self._budget = _ALLOWANCE + _UNFOLDING * self.size

    def error(self, text: str) -> RemoteProtocolError:
        """Return the error that the field being read is malformed."""
        return RemoteProtocolError(
            f"malformed {''.join(self.path)} in {self.size} bytes: {text}",
            hint="the peer is broken or speaks another protocol",
        )

    def root(self) -> int:
        """Return the position of the root table."""
        if self.size < 8:
            raise self.error(f"{self.size} bytes are no buffer; the smallest has 8")
        return self.follow(0, _U32.unpack_from(self.data, 0)[0])

    def follow(self, at: int, offset: int) -> int:
        """Return the position that an offset found at `at` points to: inside the buffer and 4-aligned."""
        target = at + offset
        if not offset or target & 3 or target + 4 > self.size:
            raise self.error(
                f"offset {offset} at byte {at} points to byte {target}, expected a multiple of 4 below {self.size}"
            )
        return target

    def spend(self, count: int) -> None:
        """Count `count` bytes as read."""
        self._budget -= count
        if self._budget < 0:
            raise self.error(
                f"the content unfolds to more than {_UNFOLDING} times the buffer's {self.size} bytes plus {_ALLOWANCE}"
            )

    def vtable(self, table: int) -> bytes:
        """Return the vtable of the table at `table` (a position from `follow`), at least its two sizes."""
        at = table - _I32.unpack_from(self.data, table)[0]
        if at & 1 or not 0 <= at <= self.size - 4:
            text = f"the table at byte {table} has its vtable at byte {at}, the buffer has {self.size} bytes"
            raise self.error(text)
        length = _U16.unpack_from(self.data, at)[0]
        if length < 4 or length & 1 or at + length > self.size:
            raise self.error(f"the vtable at byte {at} claims {length} bytes, {self.size - at} are left")
        return self.data[at : at + length]

    def elements(self, at: int, width: int) -> tuple[int, int]:
        """Return the start and count of the elements, `width` bytes each, of the vector at `at` (from `follow`)."""
        count = _U32.unpack_from(self.data, at)[0]
        start = at + 4
        if start + count * width > self.size:
            raise self.error(
                f"the vector at byte {at} claims {count} elements of {width} bytes, {self.size - start} bytes are left"
            )
        self.spend(4 + count * width)
        return start, count

    def text(self, at: int) -> str:
        """Return the string at `at`."""
        start, count = self.elements(at, 1)
        end = start + count
        if end >= self.size or self.data[end]:
            raise self.error(f"the string of {count} bytes at byte {at} has no terminating zero")
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError as error:
            raise self.error(
                f"the string at byte {at} is not UTF-8: {error.reason} at byte {start + error.start}"
            ) from error

    def content(self, at: int, width: int) -> bytes:
        """Return the elements of the vector at `at`, `width` bytes each."""
        start, count = self.elements(at, width)
        return self.data[start : start + count * width]

    def vector(self, at: int, read: Callable[[int], Any]) -> list[Any]:
        """Return what `read` makes of each place that the vector of offsets at `at` points to."""
        start, count = self.elements(at, 4)
        values: list[Any] = []
        for index, offset in enumerate(struct.unpack_from(f"<{count}I", self.data, start)):
            self.path.append(f"[{index}]")
            values.append(read(self.follow(start + 4 * index, offset)))
            self.path.pop()
        return values


@dataclass(frozen=True, slots=True)
class _Layout:
    """A compiled vtable: the table's size, the `struct` of its known fields, and these with their places, in order."""

    size: int
    items: struct.Struct
    fields: tuple[tuple[Field, int], ...]


class _Table:
    """Reads one sort of tables; `make` returns the message of the values of those fields that are present."""

    def __init__(self, fields: Sequence[Field], make: Callable[[dict[str, Any]], Any]) -> None:
        self._fields = tuple(fields)
        self._make = make
        self._layouts: dict[bytes, _Layout] = {}

    def read(self, buffer: _Buffer, at: int) -> Any:
        """Return the message that the table at `at` (a position from `_Buffer.follow`) holds."""
        vtable = buffer.vtable(at)
        layout = self._layouts.get(vtable) or self._compile(buffer, vtable)
        if at + layout.size > buffer.size:
            raise buffer.error(f"the table at byte {at} claims {layout.size} bytes, {buffer.size - at} are left")
        buffer.spend(layout.size)
        buffer.depth += 1
        if buffer.depth > MAX_DEPTH:
            raise buffer.error(f"tables nested deeper than {MAX_DEPTH}")
        values: dict[str, Any] = {}
        for (field, place), item in zip(layout.fields, layout.items.unpack_from(buffer.data, at), strict=True):
            if field.shape != "one" or field.kind not in CODES:
                buffer.path.append(f".{field.name}")
                item = _read(buffer, field, at + place, item)
                buffer.path.pop()
            elif field.enum is not None:
                item = member(field.enum, item)
            values[field.name] = item
        buffer.depth -= 1
        return self._make(values)

    def _compile(self, buffer: _Buffer, vtable: bytes) -> _Layout:
        """Return the layout that a vtable spells; no field may lie outside the table or on top of another."""
        size, *places = struct.unpack_from(f"<{len(vtable) // 2 - 1}H", vtable, 2)
        known = [(field, place) for field, place in zip(self._fields, places, strict=False) if place]
        known.sort(key=lambda pair: pair[1])
        end, form = 4, "<4x"
        for field, place in known:
            code, alignment = slot_of(field)
            width = struct.calcsize(f"<{code}")
            if place < end or place % min(alignment, 4) or place + width > size:
                buffer.path.append(f".{field.name}")
                raise buffer.error(
                    f"{width} bytes at byte {place} of a table of {size}, expected between {end} and its end"
                )
            form += f"{place - end}x" + (f"{width}s" if field.kind == "struct" and field.shape == "one" else code)
            end = place + width
        if size < 4:
            raise buffer.error(f"a table of {size} bytes; the smallest has 4")
        layout = _Layout(size, struct.Struct(form), tuple(known))
        if len(self._layouts) < KEPT_LAYOUTS:
            self._layouts[vtable] = layout
        return layout


@cache
def _table_of(cls: type[Any]) -> _Table:
    return _Table(fields_of(cls), lambda values: cls(**values))


@cache
def _entries_of(field: Field) -> _Table:
    """Return the table of a map's entries, which it reads into (key, value)."""
    key, value = entry_of(field)
    absent: Callable[[], Any] = _ABSENT[field.kind] if field.message is None else field.message
    if field.enum is not None:
        absent = partial(member, field.enum, 0)
    return _Table(
        (key, value), lambda values: (values.get("key", ""), values["value"] if "value" in values else absent())
    )


_ABSENT: dict[str, type[Any]] = {
    "f32": float,
    "f64": float,
    "i32": int,
    "u32": int,
    "u64": int,
    "bool": bool,
    "str": str,
    "bytes": bytes,
}

_WRAPPED_BYTES = _Table((WRAPPED_BYTES,), lambda values: values.get("value", b""))


def _read(buffer: _Buffer, field: Field, place: int, item: Any) -> Any:
    """Return a field's value; `item` at `place` is a struct's bytes, of all else the offset."""
    if field.kind == "struct" and field.shape == "one":
        return struct_of(cast(type, field.message)).unpack_all(item)[0]
    at = buffer.follow(place, item)
    if field.shape == "one":
        return _one(buffer, field, at)
    if field.shape == "map":
        return _map(buffer, field, at)
    if field.kind == "struct":
        layout = struct_of(cast(type, field.message))
        return layout.unpack_all(buffer.content(at, layout.size))
    if field.kind in CODES:
        start, count = buffer.elements(at, WIDTHS[field.kind])
        values = list(struct.unpack_from(f"<{count}{CODES[field.kind]}", buffer.data, start))
        return values if field.enum is None else [member(field.enum, value) for value in values]
    if field.kind == "bytes":
        return buffer.vector(at, lambda each: _WRAPPED_BYTES.read(buffer, each))
    return buffer.vector(at, lambda each: _one(buffer, field, each))


def _one(buffer: _Buffer, field: Field, at: int) -> Any:
    if field.kind == "str":
        return buffer.text(at)
    if field.kind == "bytes":
        return buffer.content(at, 1)
    return _table_of(cast("type[Any]", field.message)).read(buffer, at)


def _map(buffer: _Buffer, field: Field, at: int) -> dict[str, Any]:
    entries = _entries_of(field)
    pairs = buffer.vector(at, lambda each: entries.read(buffer, each))
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise buffer.error(f"the map at byte {at} has {len(pairs)} entries but only {len(mapping)} different keys")
    return mapping
