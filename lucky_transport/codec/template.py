"""A writer and a reader made to measure for each message class: Python source from its fields, compiled once.

Rule 1: only what is just as expected goes this way: plain lists, the very classes, bytes laid out as we lay them out.
        All else raises, and `flatbuffers` starts again on the generic way, which also finds the words for a fault.
Rule 2: what is read is verified: each part lies inside the buffer, behind the one before it.
Rule 3: a field without a recipe, such as a list of bytes or a message that contains itself, goes this way only empty.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, cast

from lucky_transport.codec import parts
from lucky_transport.codec.generic import decode_generic, encode_generic
from lucky_transport.codec.heads import Heads, Place
from lucky_transport.codec.pieces import Piece, indented, piece_of
from lucky_transport.codec.place import Misfit
from lucky_transport.codec.table import arrange
from lucky_transport.codec.writer import MAX_DEPTH
from lucky_transport.messages.fields import Field, fields_of

__all__ = ["FAULTS", "Template", "template_of"]

#: What the short way raises where the generic one is to have a look.
FAULTS = (
    parts.Unusual,
    Misfit,
    struct.error,
    AttributeError,
    BufferError,
    IndexError,
    OverflowError,
    TypeError,
    ValueError,
)

#: The root offset is looked up as one byte.
_MAX_VTABLE = 240

_WRITE = """\
def write(m, prefix=0):
    out = [b""]
    vtables = {{}}
    key = 0
    at = prefix + {start_and_more} & -{alignment}
    end = at + {size}
{load}\
{put}\
    out[0] = HEADS[key << 3 | at - prefix - {start}] + pack({packed})
    return join(out)
"""

_PUT = """\
def put(m, at, out, vtables):
    if m.__class__ is not CLASS:
        raise Unusual
    key = 0
{load}\
    reserved = len(out)
    out.append(b"")
    end = at + {size}
    vtable = VTABLES[key]
    way = vtables.get(vtable)
    if way is None:
        way = vtables[vtable] = end
        out.append(vtable)
        end += {padded_vtable_size}
{put}\
    out[reserved] = pack_i32(at - way) + pack({packed})
    return end
"""

_READ = """\
def read(data):
    at = data[0]
    key = HEAD_KEYS[data[:at + 4]]
    size = len(data)
    [{packed}] = unpack(data, at + 4)
    end = at + {size}
{take}\
{make}\
    return m
"""

_TAKE = """\
def take(data, size, at):
    way, = unpack_i32(data, at)
    way = at - way
    if way < 0 or way & 1:
        raise Unusual
    key = KEYS[data[way:way + {vtable_size}]]
    [{packed}] = unpack(data, at + 4)
    end = at + {size}
{take}\
{make}\
    return m, end
"""


@dataclass(frozen=True, slots=True)
class Template:
    """What was made for one class. `write(message, prefix_bytes)` and `read(data)` deal with whole buffers; `put` and
    `take` with one table in a buffer (see `parts`), `alignment` is that table's. `depth`: tables in tables, at most.

    What does not go the short way raises one of FAULTS, or goes the generic one, if the template is a patient one.
    """

    write: Callable[..., bytes]
    read: Callable[[bytes], Any]
    put: parts.Put
    take: parts.Take
    alignment: int
    depth: int


@cache
def template_of(cls: type[Any], *, patient: bool = False) -> Template | None:
    """Return the template of a message class, None where there can be none.

    patient: `write` and `read` go the generic way by themselves, and raise what that raises.
    """
    if any(each.kw_only or not each.init for each in fields(cls)):
        return None
    pieces = [piece_of(cls, index, field) for index, field in enumerate(fields_of(cls))]
    return _make(cls, pieces, _making(cls, pieces), _generic_ways(cls) if patient else {})


def _making(cls: type[Any], pieces: Sequence[Piece]) -> str:
    """Return the source that makes `m` of its values: without a call of `__init__` where that would do no more."""
    if hasattr(cls, "__post_init__") or cls.__setattr__ is not object.__setattr__:
        return f"m = CLASS({', '.join(f'v{piece.index}' for piece in pieces)})"
    return "\n".join(["m = new(CLASS)", *(f"m.{piece.field.name} = v{piece.index}" for piece in pieces)])


@cache
def _template_of_pairs(field: Field) -> Template | None:
    """Return the template of a map's entries: tables of key and value, both always written, made of (key, value)."""
    value = Field("value", field.kind, "one", field.message, enum=field.enum)
    pieces = [piece_of(tuple, 0, Field("key", "str", "one")), piece_of(tuple, 1, value)]
    for piece in pieces:
        piece.source = f"m[{piece.index}]"
        piece.required = True
    return _make(tuple, pieces, "m = v0, v1", {})


def _generic_ways(cls: type[Any]) -> Mapping[str, Callable[..., Any]]:
    """Return what `write` and `read` do with all else, by the names it has in the source."""
    return {"write_generic": encode_generic, "read_generic": partial(decode_generic, cls)}


def _make(
    cls: type[Any], pieces: Sequence[Piece], making: str, generic_ways: Mapping[str, Callable[..., Any]]
) -> Template | None:
    depth = 1 + max([_link(piece) for piece in pieces], default=0)
    heads = _lay_out(pieces)
    if depth > MAX_DEPTH or heads.padded_vtable_size > _MAX_VTABLE:
        return None
    ordered = sorted((piece for piece in pieces if piece.place), key=lambda piece: piece.place)
    items = _items(ordered, heads.size)
    names: dict[str, Any] = {
        "CLASS": cls,
        "HEADS": heads.heads,
        "HEAD_KEYS": heads.head_keys,
        "VTABLES": heads.vtables,
        "KEYS": heads.keys,
        "pack": items.pack,
        "unpack": items.unpack_from,
        **_NAMES,
        **generic_ways,
    }
    for piece in pieces:
        names |= piece.names
    source = _source(pieces, ordered, heads, making, is_patient=bool(generic_ways))
    exec(compile(source, f"<template of {cls.__name__}>", "exec"), names)
    return Template(names["write"], names["read"], names["put"], names["take"], heads.alignment, depth)


def _link(piece: Piece) -> int:
    """Give a piece the functions of the message class it contains; return how deep that one is nested itself."""
    if piece.sort == "map":
        inner = _template_of_pairs(piece.field)
    elif piece.sort in ("table", "tables"):
        inner = template_of(cast(type, piece.field.message))
    else:
        return 0
    if inner is None:
        piece.sort = "rare"
        return 0
    i = piece.index
    piece.names |= {f"P{i}": inner.put, f"T{i}": inner.take, f"A{i}": inner.alignment}
    return inner.depth


def _lay_out(pieces: Sequence[Piece]) -> Heads:
    """Give each piece its place and its bit."""
    placed = [piece for piece in pieces if piece.sort != "rare"]
    places, size = arrange([(piece.size, piece.alignment) for piece in placed])
    bit = 1
    for piece, place in zip(placed, places, strict=True):
        piece.place = place
        if piece.sort != "scalar" and not piece.required:
            piece.bit = bit
            bit <<= 1
    alignment = max([4, *(piece.alignment for piece in placed)])
    return Heads([Place(piece.place, piece.bit) for piece in pieces], size, alignment)


def _items(ordered: Sequence[Piece], size: int) -> struct.Struct:
    """Return the `struct` of a table without the way to its vtable."""
    end, form = 4, "<"
    for piece in ordered:
        form += f"{piece.place - end}x{piece.code}"
        end = piece.place + piece.size
    return struct.Struct(f"{form}{size - end}x")


def _source(pieces: Sequence[Piece], ordered: Sequence[Piece], heads: Heads, making: str, *, is_patient: bool) -> str:
    variables = [name for piece in ordered for name in piece.variables()]
    filling = {
        "size": heads.size,
        "vtable_size": heads.vtable_size,
        "padded_vtable_size": heads.padded_vtable_size,
        "start": 4 + heads.padded_vtable_size,
        "start_and_more": 4 + heads.padded_vtable_size + heads.alignment - 1,
        "alignment": heads.alignment,
        "load": indented("".join(piece.load() for piece in pieces)),
        "put": indented("".join(piece.put() for piece in pieces)),
        "take": indented("".join(piece.take() for piece in pieces)),
        "packed": ", ".join(variables),
        "make": indented(making),
    }
    write, put, read, take = (part.format(**filling) for part in (_WRITE, _PUT, _READ, _TAKE))
    if is_patient:
        write, read = _patient(write, "write_generic(m, prefix)"), _patient(read, "read_generic(data)")
    return write + put + read + take


def _patient(function: str, otherwise: str) -> str:
    """Return the source of a function that does something else where it would raise one of FAULTS."""
    head, _, body = function.partition("\n")
    return f"{head}\n    try:\n{indented(body)}    except FAULTS:\n        return {otherwise}\n"


_NAMES: dict[str, Any] = {
    "FAULTS": FAULTS,
    "PADDING": parts.PADDING,
    "TEXT": parts.TEXT,
    "Unusual": parts.Unusual,
    "as_bytes": parts.as_bytes,
    "as_list": parts.as_list,
    "encode": str.encode,
    "join": b"".join,
    "new": object.__new__,
    "pack_i32": struct.Struct("<i").pack,
    "pack_u32": parts.U32.pack,
    "put_tables": parts.put_tables,
    "put_texts": parts.put_texts,
    "take_tables": parts.take_tables,
    "take_texts": parts.take_texts,
    "unpack_i32": struct.Struct("<i").unpack_from,
    "unpack_u32": parts.U32.unpack_from,
}
