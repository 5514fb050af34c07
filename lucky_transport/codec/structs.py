"""Structs: a few scalars in place, inside a table or one after the other in a vector.

    class Vec3: x: F32, y: F32, z: F32   ->   12 bytes, aligned as its widest scalar

Rule 1: a struct has no vtable, so all of its fields are always there and none can ever be added.
Rule 2: each scalar lies at a multiple of its own width, the whole takes a multiple of the widest; gaps are zero.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.scalar import CODES, WIDTHS, first_misfit
from lucky_transport.messages.fields import Field, fields_of

__all__ = ["Inline", "inline_of"]


class Inline:
    """How one struct class lies in the bytes: `size` and `alignment` are bytes, `form` its `struct` format without "<".

    `names` are its fields' names, `kinds` their scalar kinds.
    """

    def __init__(self, cls: type[Any]) -> None:
        wrong = [field.name for field in fields_of(cls) if not _is_plain(field)]
        if wrong or not fields_of(cls):
            raise TypeError(f"the struct {cls.__name__} needs fields, all of them single scalars; not so: {wrong}")
        self.cls = cls
        self.names = tuple(field.name for field in fields_of(cls))
        self.kinds = tuple(field.kind for field in fields_of(cls))
        self.form, end, self.alignment = "", 0, 1
        for kind in self.kinds:
            width = WIDTHS[kind]
            self.form += f"{-end % width}x{CODES[kind]}"
            end += -end % width + width
            self.alignment = max(self.alignment, width)
        self.form += f"{-end % self.alignment}x"
        self._items = struct.Struct(f"<{self.form}")
        self.size = self._items.size

    def pack(self, value: Any) -> bytes:
        """Return the bytes of one struct; raises Misfit for what is none or does not fit."""
        if not isinstance(value, self.cls):
            shown = f"{reprlib.repr(value)} is {type(value).__name__}"
            raise Misfit(f"{shown}, expected {self.cls.__name__}", TypeError)
        scalars = [getattr(value, name) for name in self.names]
        try:
            return self._items.pack(*scalars)
        except (struct.error, OverflowError, TypeError) as error:
            found = first_misfit([f".{name}" for name in self.names], self.kinds, scalars)
            raise found or Misfit(f"{reprlib.repr(value)}: {error}", TypeError) from error

    def unpack(self, data: bytes) -> Any:
        """Return the struct that these `size` bytes are."""
        return self.cls(*self._items.unpack(data))

    def pack_all(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of many structs, one after the other."""
        parts: list[bytes] = []
        for index, value in enumerate(values):
            try:
                parts.append(self.pack(value))
            except Misfit as misfit:
                raise misfit.within(f"[{index}]") from misfit.__cause__
        return b"".join(parts)

    def unpack_all(self, data: bytes) -> list[Any]:
        """Return the structs that lie one after the other in these bytes."""
        cls = self.cls
        return [cls(*scalars) for scalars in self._items.iter_unpack(data)]


def _is_plain(field: Field) -> bool:
    return field.shape == "one" and field.kind in CODES and not field.optional and field.enum is None


@cache
def inline_of(cls: type[Any]) -> Inline:
    """Return how a struct class lies in the bytes; raises TypeError for a class that cannot be a struct."""
    return Inline(cls)
