"""What one field contributes to the source of its class's template.

Rule 1: `load`, `put` and `take` are lines of Python, made of the field's recipe; `variables` are the names of what lies
        in the table, the same for packing and unpacking.
Rule 2: an alignment of 8 makes another sort of the field ("wide scalars"), so that the lines themselves need not ask.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from typing import Any, cast

from lucky_transport.codec.maps import ScalarMap
from lucky_transport.codec.parts import Scalars
from lucky_transport.codec.recipes import BOOL_LOAD, OPTIONAL_BOOL_LOAD, OPTIONAL_LOAD, RARE_LOAD, RECIPES, STRUCT_LOAD
from lucky_transport.codec.scalar import CODES, WIDTHS
from lucky_transport.codec.structs import inline_of
from lucky_transport.messages.fields import Field, fields_of

__all__ = ["Piece", "classes_in", "indented", "piece_of"]


@dataclass(slots=True)
class Piece:
    """One field: `sort` is the name of its recipe, or "scalar", "optional", "struct", "rare".

    `code` and `alignment` are those of what lies in the table, `width` is one element's of what lies outside. `place`
    (0 = not in the table) and `bit` (0 = never absent) are known once the table is laid out. source: where the value is
    fetched from, the message's attribute where nothing else is said. required: written even where it is empty.
    """

    index: int
    field: Field
    sort: str
    code: str = "I"
    alignment: int = 4
    width: int = 0
    place: int = 0
    bit: int = 0
    source: str = ""
    required: bool = False
    names: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @property
    def size(self) -> int:
        """Bytes inside the table."""
        return struct.calcsize(f"<{self.code}")

    def load(self) -> str:
        """Lines that fetch the field from the message `m`."""
        if self.sort == "scalar":
            return self._fill(BOOL_LOAD if self.field.kind == "bool" else "v{i} = {source}\n")
        optional = OPTIONAL_BOOL_LOAD if self.field.kind == "bool" else OPTIONAL_LOAD
        special = {"optional": optional, "struct": STRUCT_LOAD, "rare": RARE_LOAD}
        return self._fill(special[self.sort] if self.sort in special else RECIPES[self.sort].load)

    def put(self) -> str:
        """Lines that append what lies outside the table."""
        recipe = RECIPES.get(self.sort)
        if recipe is None:
            return ""
        i = self.index
        given = "True" if self.required else recipe.given
        lines = f"if {given}:\n{indented(recipe.put)}    o{i} = start - at - {self.place}\nelse:\n    o{i} = 0\n"
        return self._fill(lines)

    def take(self) -> str:
        """Lines that make the field's value, v{index}, of what was unpacked from the table."""
        i, recipe = self.index, RECIPES.get(self.sort)
        if recipe is not None:
            found = f"start = at + {self.place} + o{i}\nif start < end or start & 3:\n    raise Unusual\n{recipe.take}"
            given = "True" if self.required else f"key & {self.bit}"
            return self._fill(f"if {given}:\n{indented(found)}else:\n    v{i} = {recipe.absent}\n")
        if self.sort == "rare":
            return f"v{i} = {self._absent()}\n"
        value = f"X{i}({', '.join(self.variables())})" if self.sort == "struct" else f"v{i}"
        if self.field.enum is not None:
            value = f"E{i}(v{i}, v{i})"
        if self.bit:
            value += f" if key & {self.bit} else None"
        return "" if value == f"v{i}" else f"v{i} = {value}\n"

    def variables(self) -> list[str]:
        """Names of what is packed into the table and unpacked from it, in order."""
        if self.sort == "struct":
            return [f"v{self.index}_{name}" for name in self._struct_names()]
        return [f"o{self.index}" if self.sort in RECIPES else f"v{self.index}"]

    def _struct_names(self) -> tuple[str, ...]:
        return inline_of(cast(type, self.field.message)).names if self.sort == "struct" else ()

    def _absent(self) -> str:
        return {"one": "None", "list": "[]", "map": "{}"}[self.field.shape]

    def _fill(self, lines: str) -> str:
        inner = self._struct_names()
        return lines.format(
            i=self.index,
            source=self.source or f"m.{self.field.name}",
            bit=self.bit,
            width=self.width,
            absent=self._absent(),
            items=", ".join(self.variables()),
            zeros=", ".join("0" for _ in inner),
            attributes=", ".join(f"v{self.index}.{name}" for name in inner),
        )


def indented(lines: str) -> str:
    """Return the lines four columns further right."""
    return "".join(f"    {line}\n" for line in lines.splitlines())


def piece_of(cls: type[Any], index: int, field: Field) -> Piece:
    """Return the piece of field `index` of a message class; a contained message is named by the caller."""
    kind, one = field.kind, field.shape == "one"
    enum = {} if field.enum is None else {f"E{index}": {int(each): each for each in field.enum}.get}
    if not one and (kind == "bytes" or enum or (kind == "struct" and field.shape == "map")):
        return Piece(index, field, "rare")
    if kind == "message" and cls in classes_in(cast(type, field.message)):
        return Piece(index, field, "rare")
    if field.shape == "map":
        return Piece(index, field, "scalar map" if kind in CODES else "map", names=_map_names(index, kind))
    if kind == "message":
        return Piece(index, field, "table" if one else "tables")
    if kind == "struct":
        inline = inline_of(cast(type, field.message))
        if one:
            return Piece(index, field, "struct", inline.form, inline.alignment, names={f"X{index}": inline.cls})
        sort = "wide structs" if inline.alignment == 8 else "structs"
        return Piece(index, field, sort, width=inline.size, names={f"X{index}": inline})
    if kind in CODES:
        if one:
            sort = "optional" if field.optional else "scalar"
            return Piece(index, field, sort, CODES[kind], WIDTHS[kind], names=enum)
        sort = "wide scalars" if WIDTHS[kind] == 8 else "scalars"
        return Piece(index, field, sort, width=WIDTHS[kind], names={f"X{index}": Scalars(kind)})
    return Piece(index, field, {"str": "text", "bytes": "blob"}[kind] if one else "texts")


def _map_names(index: int, kind: str) -> dict[str, Any]:
    return {f"X{index}": ScalarMap(kind)} if kind in CODES else {}


def classes_in(cls: type[Any]) -> set[type[Any]]:
    """Return a message class and all that its messages may contain, at any depth; structs are none."""
    found: set[type[Any]] = set()
    todo: list[type[Any]] = [cls]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += [cast(type, field.message) for field in fields_of(each) if field.kind == "message"]
    return found
