"""Tables: which field lies where, and one `struct` for all of them at once.

    vtable   [u16 its size] [u16 the table's size] [u16 place of field 0, 0 = absent] [u16 place of field 1] ...
    table    [i32 distance back to its vtable] fields: scalars in place, everything else as an offset

Rule 1: a vtable is a layout; a layout is compiled to a `struct` once and found again by its bytes (reading) or by the
        set of fields present (writing).
Rule 2: absent means default; fields a reader does not know (of a newer peer) are skipped.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.scalar import CODES, scalar_misfit
from lucky_transport.codec.structs import Inline
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import MAX_DEPTH, Writer
from lucky_transport.messages.fields import member

__all__ = ["Body", "Layout", "Slot", "Table", "arrange"]

#: Layouts kept per message class; a peer that sends ever new ones must not fill our memory.
_KEPT_LAYOUTS = 256


@dataclass(frozen=True, slots=True)
class Body:
    """How content outside the table is written and read: both take or return a position in the buffer."""

    write: Callable[[Writer, Any], int]
    read: Callable[[Verifier, int], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One field: `code` is the `struct` code of what lies in the table ("I" for an offset), `kind` its scalar kind.

    `is_present(value)` is true where the value differs from the default. `body` is None for scalars and for structs,
    which have `inline` instead. enum: the class of which a scalar is a member.
    """

    name: str
    code: str
    is_present: Callable[[Any], Any]
    kind: str = ""
    body: Body | None = None
    inline: Inline | None = None
    enum: type[IntEnum] | None = None

    @property
    def width(self) -> int:
        """Bytes inside the table."""
        return struct.calcsize(f"<{self.code}")

    def value(self, item: Any) -> Any:
        """Return the scalar or struct of what lies in the table."""
        if self.enum:
            return member(self.enum, item)
        return self.inline.unpack(item) if self.inline else item

    @property
    def alignment(self) -> int:
        """What its place inside the buffer is a multiple of."""
        return self.inline.alignment if self.inline else self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """One compiled vtable; `places` are (slot index, slot, byte within the table) in the order of `items`."""

    vtable: bytes
    size: int
    alignment: int
    items: struct.Struct
    places: tuple[tuple[int, Slot, int], ...]

    @classmethod
    def compile(cls, vtable: bytes, slots: Sequence[Slot]) -> Layout:
        """Return the layout that a vtable spells; raises Misfit for places outside the table or on top of another."""
        size, *offsets = struct.unpack_from(f"<{len(vtable) // 2 - 1}H", vtable, 2)
        known = zip(range(len(slots)), slots, offsets, strict=False)
        places = tuple(sorted((place for place in known if place[2]), key=lambda place: place[2]))
        end, form = 4, "<i"
        for _, slot, offset in places:
            if offset < end or offset % min(slot.alignment, 4) or offset + slot.width > size:
                raise Misfit(
                    f"{slot.width} bytes at byte {offset} of a table of {size}, expected between {end} and its end"
                ).within(f".{slot.name}")
            form += f"{offset - end}x{slot.code}"
            end = offset + slot.width
        if size < 4:
            raise Misfit(f"a table of {size} bytes; the smallest has 4")
        alignment = max((slot.alignment for _, slot, _ in places), default=4)
        return cls(vtable, size, max(alignment, 4), struct.Struct(form + f"{size - end}x"), places)


class Table:
    """Writes and reads one class of tables.

    `take(message)` returns the values of all slots in order, `make(values)` the message of a dict of those present.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        take: Callable[[Any], Sequence[Any]],
        make: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._slots = tuple(slots)
        self._take = take
        self._make = make
        self._by_present: dict[int, Layout] = {}
        self._by_vtable: dict[bytes, Layout] = {}

    def present(self, values: Sequence[Any]) -> int:
        """Return which values differ from their defaults, as bits by slot."""
        bits, bit = 0, 1
        for slot, value in zip(self._slots, values, strict=True):
            try:
                if slot.is_present(value):
                    bits |= bit
            except Misfit as misfit:
                raise misfit.within(f".{slot.name}") from misfit.__cause__
            except (TypeError, ValueError) as error:
                raise Misfit(f"{reprlib.repr(value)}: {error}", TypeError).within(f".{slot.name}") from error
            bit <<= 1
        return bits

    def write(self, writer: Writer, message: Any) -> int:
        """Append the table and all it refers to; return the table's position."""
        values = self._take(message)
        present = self.present(values)
        layout = self._by_present.get(present) or self._arrange(present)
        writer.depth += 1
        if writer.depth > MAX_DEPTH:
            raise Misfit(f"tables nested deeper than {MAX_DEPTH}")
        vtable_at = _append_vtable(writer, layout)
        start = len(writer.out)
        writer.out += bytes(layout.size)
        items: list[Any] = []
        for index, slot, offset in layout.places:
            try:
                if slot.body:
                    items.append(slot.body.write(writer, values[index]) - start - offset)
                else:
                    items.append(slot.inline.pack(values[index]) if slot.inline else values[index])
            except Misfit as misfit:
                raise misfit.within(f".{slot.name}") from misfit.__cause__
        try:
            layout.items.pack_into(writer.out, start, start - vtable_at, *items)
        except (struct.error, OverflowError, TypeError) as error:
            raise _scalar_fault(layout, values, error) from error
        writer.depth -= 1
        return start

    def read(self, verifier: Verifier, at: int) -> Any:
        """Return the message that the table at `at` (a position from `Verifier.follow`) holds."""
        vtable = verifier.vtable(at)
        layout = self._by_vtable.get(vtable) or self._learn(vtable)
        if at + layout.size > verifier.size:
            raise Misfit(f"the table at byte {at} claims {layout.size} bytes, {verifier.size - at} are left")
        verifier.spend(layout.size)
        verifier.depth += 1
        if verifier.depth > MAX_DEPTH:
            raise Misfit(f"tables nested deeper than {MAX_DEPTH}")
        values: dict[str, Any] = {}
        _, *items = layout.items.unpack_from(verifier.data, at)
        for (_, slot, offset), item in zip(layout.places, items, strict=True):
            if slot.body is None:
                values[slot.name] = slot.value(item)
                continue
            try:
                values[slot.name] = slot.body.read(verifier, verifier.follow(at + offset, item))
            except Misfit as misfit:
                raise misfit.within(f".{slot.name}") from misfit.__cause__
        verifier.depth -= 1
        return self._make(values)

    def _arrange(self, present: int) -> Layout:
        """Lay the present fields out; see `arrange`."""
        chosen = {index: slot for index, slot in enumerate(self._slots) if present >> index & 1}
        found, size = arrange([(slot.width, slot.alignment) for slot in chosen.values()])
        place_of = dict(zip(chosen, found, strict=True))
        places = [place_of.get(index, 0) for index in range(max(chosen, default=-1) + 1)]
        vtable = struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), size, *places)
        return _keep(self._by_present, present, Layout.compile(vtable, self._slots))

    def _learn(self, vtable: bytes) -> Layout:
        return _keep(self._by_vtable, vtable, Layout.compile(vtable, self._slots))


def arrange(shapes: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Return a place for each (width, alignment) and the table's size: widest alignment first, 4 bytes at byte 4.

    Every width is a multiple of its alignment, so only the 4 bytes before the 8-aligned ones can remain empty.
    """
    order = sorted(range(len(shapes)), key=lambda index: -shapes[index][1])
    end, places = 4, [0] * len(shapes)
    if order and shapes[order[0]][1] == 8:
        filler = next((index for index in order if shapes[index] == (4, 4)), None)
        if filler is not None:
            order.remove(filler)
            places[filler] = end
        end = 8
    for index in order:
        places[index] = end
        end += shapes[index][0]
    return places, (end + 3) & ~3


def _append_vtable(writer: Writer, layout: Layout) -> int:
    """Append the vtable unless the buffer has it already, and pad so that the table can follow; return its position."""
    at = writer.vtables.get(layout.vtable)
    if at is not None:
        writer.pad(layout.alignment)
        return at
    writer.pad(layout.alignment, ahead=len(layout.vtable))
    writer.vtables[layout.vtable] = at = len(writer.out)
    writer.out += layout.vtable
    return at


def _keep(layouts: dict[Any, Layout], key: int | bytes, layout: Layout) -> Layout:
    if len(layouts) < _KEPT_LAYOUTS:
        layouts[key] = layout
    return layout


def _scalar_fault(layout: Layout, values: Sequence[Any], error: Exception) -> Misfit:
    for index, slot, _ in layout.places:
        found = scalar_misfit(slot.kind, values[index]) if slot.kind in CODES else None
        if found is not None:
            return found.within(f".{slot.name}")
    return Misfit(f"the buffer cannot be written: {error}")
