"""The FlatBuffers schema of the command channel, from the classes that the codec encodes, and what may never change."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, Metadatum
from lucky_transport.messages import _generated
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.scalars import is_struct

__all__ = ["render", "violations"]

_HEAD = """\
// The command channel: the envelope and every message of lucky_transport, for flatc and any language it generates.
//
//   flatc --csharp --gen-object-api -o Generated/ schema/hazel_rpc.fbs
//   flatc --python -o generated/ schema/hazel_rpc.fbs
//
// Generated from proto/ by schema/generate.py; do not edit. How to change something: schema/README.md.
//
//   * Fields are only ever appended at the end of their table, members to their enum; a struct never changes. Nothing
//     is renamed, retyped or removed.
//   * Absent means empty: an absent string, vector or table is "", no elements, not given. Defaults are not written.
//     Where a number says `= null`, absent and zero are told apart.
//   * A map is a vector of entry tables sorted by key (its UTF-8 bytes); a key occurs once.
//   * A newer peer may know more members of an enum: treat a number without a name as one you do not know.
//   * All content comes from another process: verify a buffer before reading it (C++, C# and Rust have verifiers).
//
// The namespace is not Hazel.Rpc: the engine's Protobuf classes of the same names live there, and both exist side by
// side for as long as gRPC does.

namespace Lucky.Rpc;
"""
_TYPES = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "u64": "ulong", "str": "string"}
_WIDTH = 120


def render() -> str:
    """Return the text of `schema/hazel_rpc.fbs`."""
    envelope = [Kind, Metadatum, ImagePlace, Envelope]
    messages: dict[str, list[type[Any]]] = {}
    for name, module in _generated.MODULE_OF.items():
        messages.setdefault(module, []).append(_class(name))
    every = envelope + [cls for of_module in messages.values() for cls in of_module]
    widths = {field.enum: field.kind for cls in every if not issubclass(cls, IntEnum) for field in fields_of(cls)}
    parts = [_HEAD, _heading("the envelope"), _method_ids()]
    parts += [_declaration(cls, widths) for cls in envelope]
    parts += ["root_type Envelope;\n", _heading("entries of maps"), *_entries(every)]
    for module, classes in messages.items():
        parts += [_heading(f"{module}.proto"), *(_declaration(cls, widths) for cls in classes)]
    return "\n".join(parts)


def _class(name: str) -> type[Any]:
    from lucky_transport import messages

    return getattr(messages, name)


def _heading(text: str) -> str:
    return f"// --- {text} ".ljust(_WIDTH, "-") + "\n"


def _method_ids() -> str:
    lines = [
        "/// Which method a call is for. Ids of removed methods are never used again.",
        "enum MethodId:uint {",
        "  NONE = 0,",
        *(f"  {row.service.rpartition('.')[2]}_{row.short_name} = {row.id}," for row in METHODS),
    ]
    return "\n".join([*lines, "}\n"])


def _declaration(cls: type[Any], widths: dict[type[IntEnum] | None, str]) -> str:
    lines = list(_comment(inspect.getdoc(cls) or ""))
    if issubclass(cls, IntEnum):
        lines.append(f"enum {cls.__name__}:{_TYPES[widths[cls]]} {{")
        lines += [f"  {member.name} = {member.value}," for member in cls]
    else:
        lines.append(f"{'struct' if is_struct(cls) else 'table'} {cls.__name__} {{")
        lines += [
            f"  {field.name}:{_type(cls, field)}{' = null' if field.optional else ''};" for field in fields_of(cls)
        ]
    return "\n".join([*lines, "}\n"])


def _comment(text: str) -> Iterator[str]:
    for at, paragraph in enumerate(text.split("\n\n")):
        if at:
            yield "///"
        yield from textwrap.wrap(
            paragraph,
            _WIDTH,
            initial_indent="/// ",
            subsequent_indent="/// ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _type(cls: type[Any], field: Field) -> str:
    if cls is Envelope and field.name == "method":  # a plain number in Python
        return "MethodId"
    one = _one(field)
    if field.shape == "map":
        return f"[{_entry(field)}]"
    return f"[{one}]" if field.shape == "list" else one


def _one(field: Field) -> str:
    named = field.message or field.enum
    if field.kind == "bytes":
        return "[ubyte]"
    return named.__name__ if named else _TYPES.get(field.kind, field.kind)


def _entry(field: Field) -> str:
    one = _one(field)
    return f"{one[0].upper()}{one[1:]}Entry"


def _entries(classes: list[type[Any]]) -> Iterator[str]:
    """Yield a table for the entries of each kind of map."""
    maps = [
        field for cls in classes if not issubclass(cls, IntEnum) for field in fields_of(cls) if field.shape == "map"
    ]
    for name, value in sorted({_entry(field): _one(field) for field in maps}.items()):
        yield f"table {name} {{\n  key:string (key);\n  value:{value};\n}}\n"


def violations(released: str, new: str) -> list[str]:
    """Return what in the schema `new` breaks peers that were built from `released`, a line each; [] when nothing does.

    flatc --conform finds less: it lets fields, members and tables go, and others take their names.
    """
    return list(_violations(_blocks(released), _blocks(new)))


def _violations(released: dict[str, list[str]], new: dict[str, list[str]]) -> Iterator[str]:
    for head, old in released.items():
        now = new.get(head)
        if now is None:
            yield f"{head} was removed"
        elif head.startswith("enum"):
            yield from (f"{head}: {member} was removed or changed" for member in old if member not in now)
            values = [member.partition("=")[2] for member in now]
            yield from (f"{head}: two members have the value{value}" for value in {*values} if values.count(value) > 1)
        elif head.startswith("struct") and now != old:
            yield f"{head} changed; a struct never does"
        else:
            for at, line in enumerate(old):
                if at >= len(now) or now[at] != line:
                    yield f"{head}: {line} was in slot {at}, now {now[at] if at < len(now) else 'nothing'} is"
            yield from (f"{head}: {line} is required, but older peers do not write it" for line in _required(old, now))


def _required(old: list[str], now: list[str]) -> list[str]:
    return [line for line in now[len(old) :] if "required" in line]


def _blocks(text: str) -> dict[str, list[str]]:
    """Return the lines inside each declaration of a schema, by its first line; a statement has none."""
    blocks: dict[str, list[str]] = {}
    head = ""
    for line in re.sub(r"//.*", "", text).splitlines():
        # A field out of use is still in its slot.
        line = line.strip().rstrip(",").replace(" (deprecated)", "")
        if line.endswith("{"):
            head = line.removesuffix("{").strip()
            blocks[head] = []
        elif line == "}":
            head = ""
        elif line and head:
            blocks[head].append(line)
        elif line:
            blocks[line] = []
    return blocks
