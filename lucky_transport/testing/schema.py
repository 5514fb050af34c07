"""A FlatBuffers schema in its own words, read from its text: what the drift and evolution tests compare.

    schema = read_schema(Path("schema/hazel_rpc.fbs").read_text())
    schema.tables["JointState"][0]      # Item(name='positions', type='[float]', default='', mark='')

Rule 1: it reads what `hazel_rpc.fbs` needs (a namespace, enums, structs, tables, a root) and refuses everything else by
        its line, so that nothing is left out of a comparison in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Enum", "Item", "Schema", "read_schema"]

_BLOCK = re.compile(r"(table|struct|enum) (\w+)(?:: ?(\w+))? \{\n(.*?)^\}$", re.DOTALL | re.MULTILINE)
_STATEMENT = re.compile(r"(namespace|root_type) ([\w.]+);")
_ITEM = re.compile(r"(\w+): ?(\[?\w+\]?)(?: = ([\w.+-]+))?(?: \(([\w, ]+)\))?;")
_MEMBER = re.compile(r"(\w+) = (-?\d+),?")


@dataclass(frozen=True, slots=True)
class Item:
    """One field: its type as it is spelled, its `default` ("" where none is written), its marks ("key, required")."""

    name: str
    type: str
    default: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Enum:
    """One enum: the integer type under it, its members' values by name."""

    type: str
    members: dict[str, int]


@dataclass(slots=True)
class Schema:
    """Everything that a schema declares, by name; the fields of tables and structs in their order."""

    namespace: str = ""
    root: str = ""
    tables: dict[str, tuple[Item, ...]] = field(default_factory=dict[str, tuple[Item, ...]])
    structs: dict[str, tuple[Item, ...]] = field(default_factory=dict[str, tuple[Item, ...]])
    enums: dict[str, Enum] = field(default_factory=dict[str, Enum])


def read_schema(text: str) -> Schema:
    """Return what the schema `text` declares; raises ValueError with the line that cannot be read."""
    schema = Schema()
    text = re.sub(r"[ \t]*//.*", "", text)
    for kind, name, under, body in _BLOCK.findall(text):
        if name in {*schema.tables, *schema.structs, *schema.enums}:
            raise ValueError(f"{kind} {name} is declared twice")
        lines = [line.strip() for line in body.splitlines() if line.strip()]
        if kind == "enum":
            schema.enums[name] = Enum(under, _members(name, lines))
        else:
            (schema.tables if kind == "table" else schema.structs)[name] = _items(f"{kind} {name}", lines)
    for line in _BLOCK.sub("", text).splitlines():
        _read_statement(schema, line.strip())
    return schema


def _read_statement(schema: Schema, line: str) -> None:
    found = _STATEMENT.fullmatch(line)
    if found is None:
        if line:
            raise ValueError(f"{line!r} is none of namespace, root_type, enum, struct, table")
    elif found[1] == "namespace":
        schema.namespace = found[2]
    else:
        schema.root = found[2]


def _items(place: str, lines: list[str]) -> tuple[Item, ...]:
    items: dict[str, Item] = {}
    for line in lines:
        found = _ITEM.fullmatch(line)
        if found is None:
            raise ValueError(f"{place}: {line!r} is not written as `name:type;` with at most a default and a mark")
        name, kind, default, mark = found.groups(default="")
        if name in items:
            raise ValueError(f"{place}: the field {name} is declared twice")
        items[name] = Item(name, kind, default, mark)
    return tuple(items.values())


def _members(name: str, lines: list[str]) -> dict[str, int]:
    members: dict[str, int] = {}
    for line in lines:
        found = _MEMBER.fullmatch(line)
        if found is None:
            raise ValueError(f"enum {name}: {line!r} is not written as `NAME = number,`")
        if found[1] in members or int(found[2]) in members.values():
            raise ValueError(f"enum {name}: {line!r} is there already")
        members[found[1]] = int(found[2])
    return members
