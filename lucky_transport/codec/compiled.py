"""The compiled codec: for each message class an encoder and a decoder in Python, made of its fields' snippets.

The decoder reads the layout that the encoder writes, and verifies it: each part lies inside the buffer, behind the one
before. Any other layout goes to the generic reader. Any other value is checked, and encoded as what it stands for.
These two also write the text of an error.
"""

from __future__ import annotations

import linecache
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, cast

from lucky_transport.codec.layout import (
    CODES,
    WRAPPED_BYTES,
    FieldOffset,
    SlowPath,
    TableLayout,
    arrange,
    entry_of,
    slot_of,
)
from lucky_transport.codec.runtime import NAMES, ReadTable, WriteTable
from lucky_transport.codec.snippets import FieldCode, field_code, indented
from lucky_transport.messages.fields import MAX_DEPTH, Field, fields_of

Encode = Callable[..., bytes]
Decode = Callable[[bytes], Any]

#: What compiled code raises where it does not apply.
_FAULTS: tuple[type[Exception], ...] = (
    SlowPath,
    struct.error,
    AttributeError,
    BufferError,
    IndexError,
    OverflowError,
    TypeError,
    ValueError,
)

#: With more the vtable would not end within the buffer's first 256 bytes: the root offset is looked up as one byte.
_MAX_FIELDS = 118

_MESSAGE = """\
def encode(m, prefix=0):
    try:
        out = [b""]
        vtables = {{}}
        present = 0
        at = prefix + {start_and_more} & -{alignment}
        end = at + {size}
{load}\
{write}\
        out[0] = HEADS[present << 3 | at - prefix - {start}] + pack({variables})
        return join(out)
    except FAULTS:
        return encode_slow(m, prefix)

def decode(data):
    try:
        at = data[0]
        present = HEAD_PRESENTS[data[:at + 4]]
        size = len(data)
        [{variables}] = unpack(data, at + 4)
        end = at + {size}
{read}\
{make}\
        return m
    except FAULTS:
        return decode_slow(data)
"""

_TABLE = """\
def write_table(m, at, out, vtables):
    if m.__class__ is not CLASS:
        raise SlowPath
    present = 0
{load}\
    reserved = len(out)
    out.append(b"")
    end = at + {size}
    vtable = VTABLES[present]
    vtable_at = vtables.get(vtable)
    if vtable_at is None:
        vtable_at = vtables[vtable] = end
        out.append(vtable)
        end += {padded_vtable_size}
{write}\
    out[reserved] = pack_i32(at - vtable_at) + pack({variables})
    return end

def read_table(data, size, at):
    distance, = unpack_i32(data, at)
    vtable_at = at - distance
    if vtable_at < 0 or vtable_at & 1:
        raise SlowPath
    present = PRESENTS[data[vtable_at:vtable_at + {vtable_size}]]
    [{variables}] = unpack(data, at + 4)
    end = at + {size}
{read}\
{make}\
    return m, end
"""


class Codec(NamedTuple):
    """The codec of one class: `encode(message, prefix_bytes)` and `decode(data)` of whole buffers."""

    encode: Encode
    decode: Decode


@dataclass(frozen=True, slots=True, eq=False)
class _TableCode:
    """The code of one sort of tables, and of tables in other tables the functions that write and read them."""

    fields: Sequence[FieldCode]
    layout: TableLayout
    making: str
    names: dict[str, Any]

    def functions(self, template: str, columns: int, extra: dict[str, Any]) -> dict[str, Any]:
        """Return the functions of a template, whose lines are that many columns in, by name; `extra` it refers to."""
        names = {**NAMES, **self.names, **extra}
        source = self.source(template, columns)
        file = f"<codec of {names['CLASS'].__name__}, {zlib.crc32(source.encode()):08x}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # for debuggers, tracebacks
        exec(compile(source, file, "exec"), names)
        return names

    def source(self, template: str, columns: int) -> str:
        """Return the text of these functions."""
        layout = self.layout
        ordered = sorted(self.fields, key=lambda field: field.at)
        filling = {
            "size": layout.size,
            "vtable_size": layout.vtable_size,
            "padded_vtable_size": layout.padded_vtable_size,
            "start": 4 + layout.padded_vtable_size,
            "start_and_more": 4 + layout.padded_vtable_size + layout.alignment - 1,
            "alignment": layout.alignment,
            "load": "".join(field.load() for field in self.fields),
            "write": "".join(field.write() for field in self.fields),
            "read": "".join(field.read() for field in self.fields),
            "variables": ", ".join(name for field in ordered for name in field.variables),
            "make": self.making,
        }
        for name in ("load", "write", "read", "make"):
            filling[name] = indented(str(filling[name]), columns)
        return template.format(**filling)


def _decode_generic(cls: type[Any], data: bytes) -> Any:
    """Return what the generic reader reads; it is loaded for the first buffer that needs it."""
    from lucky_transport.codec.reader import decode_generic

    return decode_generic(cls, data)


@cache
def codec_of(cls: type[Any], encode_slow: Encode | None = None, decode_slow: Decode | None = None) -> Codec:
    """Return the codec of a message class; what its compiled code does not cover goes to the two given functions.

    Raises TypeError for a class that FlatBuffers cannot carry.
    """
    _check(cls)
    encode_slow = encode_slow or partial(_encode_checked, cls)
    decode_slow = decode_slow or partial(_decode_generic, cls)
    if not _is_finite(cls):
        return Codec(encode_slow, decode_slow)
    return _compiled(cls, _FAULTS, encode_slow, decode_slow)


def source_of(cls: type[Any]) -> str:
    """Return the text of a class's compiled functions, to be read."""
    return _code_of(cls).source(_MESSAGE, 8)


def _encode_checked(cls: type[Any], message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a buffer once all its values are checked; raises EncodeError, with the path of the field,
    for a value that its field cannot hold.
    """
    from lucky_transport.messages.values import checked  # not before there is such a value: it loads NumPy

    return _compiled(cls, ()).encode(checked(message), prefix_bytes)


@cache
def _compiled(cls: type[Any], faults: tuple[type[Exception], ...], *slow: Callable[..., Any]) -> Codec:
    """Return the compiled functions of a class; `faults` in them are for the functions `slow`: encoder and decoder."""
    encode_slow, decode_slow = slow or (None, None)
    names = {"FAULTS": faults, "encode_slow": encode_slow, "decode_slow": decode_slow}
    functions = _code_of(cls).functions(_MESSAGE, 8, names)
    return Codec(functions["encode"], functions["decode"])


@cache
def _check(cls: type[Any]) -> None:
    """Raise TypeError for a message class, or one in it, with a default that is not zero or empty."""
    classes, todo = {cls}, [cls]
    while todo:
        each = todo.pop()
        empty = each()
        for field in fields_of(each):
            default = getattr(empty, field.name)
            if default is not None and (default or field.optional or (field.message and field.shape == "one")):
                raise TypeError(
                    f"{each.__name__} has a default that is not zero or empty, which FlatBuffers could not leave out"
                )
            if field.kind == "message" and field.message not in classes:
                classes.add(cast(type, field.message))
                todo.append(cast(type, field.message))


@cache
def _is_finite(cls: type[Any], above: tuple[type, ...] = ()) -> bool:
    """True for a class without too many fields that does not contain itself; compiled code does not count its depth."""
    fields = fields_of(cls)
    if cls in above or len(above) == MAX_DEPTH or len(fields) > _MAX_FIELDS:
        return False
    inner = [cast(type, field.message) for field in fields if field.kind == "message"]
    return all(_is_finite(each, (*above, cls)) for each in inner)


@cache
def _code_of(cls: type[Any]) -> _TableCode:
    fields = [field_code(index, field, _tables(index, field)) for index, field in enumerate(fields_of(cls))]
    if hasattr(cls, "__post_init__") or cls.__setattr__ is not object.__setattr__:
        making = f"m = CLASS({', '.join(f'v{field.index}' for field in fields)})"
    else:  # what `__init__` would do, without its call
        making = "\n".join(["m = new(CLASS)", *(f"m.{field.field.name} = v{field.index}" for field in fields)])
    return _table_code(cls, fields, making)


@cache
def _entry_code_of(field: Field) -> _TableCode:
    """Return the code of a map's entries: tables of key and value, both always written, made of (key, value)."""
    key, value = entry_of(field)
    fields = [
        field_code(0, key, {}, "m[0]", is_required=True),
        field_code(1, value, _tables(1, value), "m[1]", is_required=True),
    ]
    return _table_code(tuple, fields, "m = v0, v1")


@cache
def _wrapped_bytes_code() -> _TableCode:
    """Return the code of the tables in a list of bytes, made of the bytes themselves."""
    return _table_code(bytes, [field_code(0, WRAPPED_BYTES, {}, "m")], "m = v0")


def _tables(index: int, field: Field) -> dict[str, Any]:
    """Return the functions of the tables in a field, and their alignment, by the names that snippets use."""
    if field.shape == "map" and field.kind not in CODES:
        inner = _entry_code_of(field)
    elif field.shape == "list" and field.kind == "bytes":
        inner = _wrapped_bytes_code()
    elif field.kind == "message" and not _is_finite(cast(type, field.message)):
        return _later_tables(index, cast(type, field.message))
    elif field.kind == "message":
        inner = _code_of(cast(type, field.message))
    else:
        return {}
    write, read = _table_functions(inner)
    return {f"W{index}": write, f"R{index}": read, f"A{index}": inner.layout.alignment}


def _later_tables(index: int, cls: type[Any]) -> dict[str, Any]:
    """Return what writes the tables of a class that may be the one whose code is being made; nothing reads them so."""

    def write(*arguments: Any) -> int:
        return _table_functions(_code_of(cls))[0](*arguments)

    return {f"W{index}": write, f"A{index}": max(4, *(slot_of(each)[1] for each in fields_of(cls)))}


@cache
def _table_functions(code: _TableCode) -> tuple[WriteTable, ReadTable]:
    functions = code.functions(_TABLE, 4, {})
    return functions["write_table"], functions["read_table"]


def _table_code(cls: type[Any], fields: Sequence[FieldCode], making: str) -> _TableCode:
    """Lay the fields out; return the code of their table."""
    places, size = arrange([(field.size, field.alignment) for field in fields])
    end, form, bit = 4, "<", 1
    for field, place in zip(fields, places, strict=True):
        field.at = place
        if field.can_be_absent:
            field.bit = bit
            bit <<= 1
    for field in sorted(fields, key=lambda field: field.at):
        form += f"{field.at - end}x{field.code}"
        end = field.at + field.size
    alignment = max([4, *(field.alignment for field in fields)])
    layout = TableLayout([FieldOffset(field.at, field.bit) for field in fields], size, alignment)
    values = struct.Struct(f"{form}{size - end}x")  # all of the table but the distance to its vtable
    names: dict[str, Any] = {
        "CLASS": cls,
        "HEADS": layout.heads,
        "HEAD_PRESENTS": layout.head_presents,
        "VTABLES": layout.vtables,
        "PRESENTS": layout.presents,
        "pack": values.pack,
        "unpack": values.unpack_from,
    }
    for field in fields:
        names |= field.names
    return _TableCode(fields, layout, making, names)
