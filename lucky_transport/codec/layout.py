"""Where each field of a message lies in its FlatBuffers table or struct.

    vtable   [u16 its size] [u16 the table's size] [u16 place of field 0, 0 = absent] [u16 place of field 1] ...
    table    [i32 distance back to its vtable] fields: scalars and structs in place, everything else as a u32 offset
    struct   scalars, each at a multiple of its own width

A struct has no vtable: all of its fields are always there, and none can ever be added.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from lucky_transport.lazy_dict import LazyDict
from lucky_transport.messages.fields import Field, fields_of

#: Scalar kinds of `messages.fields` and their `struct` codes.
CODES = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "u64": "Q", "bool": "?"}

#: Their bytes, which are their alignment too.
WIDTHS = {kind: struct.calcsize(f"<{code}") for kind, code in CODES.items()}

#: Layouts kept per message class: a peer that sends ever new ones must not fill our memory.
KEPT_LAYOUTS = 256


class SlowPath(Exception):
    """A value or a buffer that compiled code leaves to what checks values, or to the generic reader."""


class StructLayout:
    """How one struct class lies in the bytes: `size` and `alignment` are bytes, `form` its `struct` format without "<".

    Raises TypeError for a class that cannot be a struct.
    """

    def __init__(self, cls: type[Any]) -> None:
        wrong = [field.name for field in fields_of(cls) if not _is_plain(field)]
        if wrong or not fields_of(cls):
            raise TypeError(f"the struct {cls.__name__} needs fields, all of them single scalars; not so: {wrong}")
        self.cls = cls
        self.names = tuple(field.name for field in fields_of(cls))
        self.form, end, self.alignment = "", 0, 1
        for field in fields_of(cls):
            width = WIDTHS[field.kind]
            self.form += f"{-end % width}x{CODES[field.kind]}"
            end += -end % width + width
            self.alignment = max(self.alignment, width)
        self.form += f"{-end % self.alignment}x"
        self._items = struct.Struct(f"<{self.form}")
        self.size = self._items.size

    def pack(self, value: Any) -> bytes:
        """Return the bytes of one struct; raises SlowPath for anything else."""
        if value.__class__ is not self.cls:
            raise SlowPath
        return self._items.pack(*[getattr(value, name) for name in self.names])

    def pack_all(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of many structs, one after the other."""
        return b"".join([self.pack(value) for value in values])

    def unpack_all(self, data: bytes) -> list[Any]:
        """Return the structs that lie one after the other in these bytes."""
        cls = self.cls
        return [cls(*scalars) for scalars in self._items.iter_unpack(data)]


def _is_plain(field: Field) -> bool:
    return field.shape == "one" and field.kind in CODES and not field.optional and field.enum is None


@cache
def struct_of(cls: type) -> StructLayout:
    """Return the layout of a struct class; raises TypeError for a class that cannot be a struct."""
    return StructLayout(cls)


def slot_of(field: Field) -> tuple[str, int]:
    """Return the `struct` code of what lies in the table for a field, and its alignment."""
    if field.shape == "one" and field.kind in CODES:
        return CODES[field.kind], WIDTHS[field.kind]
    if field.shape == "one" and field.kind == "struct":
        layout = struct_of(cast(type, field.message))
        return layout.form, layout.alignment
    return "I", 4


#: A list of bytes is a vector of tables with this one field: FlatBuffers has no vector of vectors.
WRAPPED_BYTES = Field("value", "bytes", "one")


@cache
def entry_of(field: Field) -> tuple[Field, Field]:
    """Return key and value of a map, which is a vector of tables of these, sorted by key; both are always written.

    Keys are required, and a peer's dictionary should not hold null.
    """
    return Field("key", "str", "one"), Field("value", field.kind, "one", field.message, enum=field.enum)


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


class FieldOffset(NamedTuple):
    """`at`: byte of a field in its table; `bit` is its bit in `present`, 0 = it is never absent."""

    at: int
    bit: int


class TableLayout:
    """The layout in which the compiled encoder writes a class: every field has its place, an absent one leaves a gap.

    So a table is one `struct`, and its vtable follows from `present`, the bits of the fields that are there. The first
    bytes of a buffer are its head: [u32 root offset] (4 zeros where alignment wants them) vtable [i32 distance].

    `vtables[present]` are the bytes of a vtable, padded to 4; `presents[vtable]` is the inverse (unpadded,
    `vtable_size` bytes). `heads[present * 8 + pad]` are the bytes of a head, `pad` (0 or 4) the zeros in it;
    `head_presents[head]` is the inverse. The inverses raise SlowPath for other layouts.
    """

    def __init__(self, places: Sequence[FieldOffset], size: int, alignment: int) -> None:
        self._places = tuple(places)
        self.size = size
        self.alignment = alignment
        self.vtable_size = 4 + 2 * len(places)
        self.padded_vtable_size = self.vtable_size + 3 & ~3
        self.vtables = LazyDict[int, bytes](self._vtable, most=KEPT_LAYOUTS)
        self.presents = LazyDict[bytes, int](self._present, most=KEPT_LAYOUTS)
        self.heads = LazyDict[int, bytes](self._head, most=KEPT_LAYOUTS)
        self.head_presents = LazyDict[bytes, int](self._head_present, most=KEPT_LAYOUTS)

    def _vtable(self, present: int) -> bytes:
        places = [place.at if not place.bit or present & place.bit else 0 for place in self._places]
        vtable = struct.pack(f"<{2 + len(places)}H", self.vtable_size, self.size, *places)
        return vtable.ljust(self.padded_vtable_size, b"\0")

    def _present(self, vtable: bytes) -> int:
        if len(vtable) != self.vtable_size:
            raise SlowPath
        places = struct.unpack_from(f"<{len(self._places)}H", vtable, 4)
        present = sum(place.bit for place, at in zip(self._places, places, strict=True) if at)
        if self._vtable(present)[: self.vtable_size] != vtable:
            raise SlowPath
        return present

    def _head(self, present_and_pad: int) -> bytes:
        pad = present_and_pad & 7
        distance = self.padded_vtable_size
        start = struct.pack(f"<I{pad}x", 4 + pad + distance)
        return start + self._vtable(present_and_pad >> 3) + struct.pack("<i", distance)

    def _head_present(self, head: bytes) -> int:
        start = len(head) - 4 - self.padded_vtable_size
        if start not in (4, 8):
            raise SlowPath
        present = self._present(head[start : start + self.vtable_size])
        if self._head(present << 3 | start - 4) != head:
            raise SlowPath
        return present
