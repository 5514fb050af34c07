"""The generic way: for each message class the `Table` that its fields make, which reads and writes any legal layout.

Rule 1: field i of a dataclass is slot i of its table; defaults are not written; nothing is declared a second time.
Rule 2: a map is a vector of {key, value} tables sorted by key; a list of bytes is a vector of {value} tables.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, cast

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.scalar import CODES
from lucky_transport.codec.structs import inline_of
from lucky_transport.codec.table import Body, Slot, Table
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import Writer
from lucky_transport.messages.fields import Field, fields_of, member

__all__ = ["table_of"]


@cache
def table_of(cls: type) -> Table:
    """Return the table of a message class; raises TypeError for a class that FlatBuffers cannot carry."""
    slots = [_slot(field) for field in fields_of(cls)]
    values_of = _getter([slot.name for slot in slots])

    def take(message: Any) -> Sequence[Any]:
        if not isinstance(message, cls):
            raise Misfit(f"{reprlib.repr(message)} is {type(message).__name__}, expected {cls.__name__}", TypeError)
        return values_of(message)

    table = Table(slots, take, lambda values: cls(**values))
    if table.present(values_of(cls())):
        raise TypeError(
            f"{cls.__name__} has a default that is not zero or empty, which FlatBuffers could not leave out"
        )
    return table


def _getter(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if not names:
        return lambda message: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda message: (get(message),)


def _slot(field: Field) -> Slot:
    if field.shape == "one" and field.kind in CODES:
        return Slot(field.name, CODES[field.kind], _presence(field), field.kind, enum=field.enum)
    if field.shape == "one" and field.kind == "struct":
        inline = inline_of(cast(type, field.message))
        return Slot(field.name, f"{inline.size}s", _is_given, inline=inline)
    if field.shape == "list":
        return Slot(field.name, "I", len, body=_list(field))
    if field.shape == "map":
        return Slot(field.name, "I", len, body=_map(field))
    present = {"message": _is_given, "str": _is_no_empty_text, "bytes": _is_no_empty_blob}[field.kind]
    return Slot(field.name, "I", present, body=_body(field))


def _presence(field: Field) -> Callable[[Any], bool]:
    """Return what tells whether a scalar is written."""
    if field.kind == "bool":
        return _is_given_bool if field.optional else _is_true
    if field.optional:
        return _is_given
    return _has_bits if field.kind in ("f32", "f64") else _is_not_zero


def _body(field: Field) -> Body:
    """Return how one text, byte string or message is written."""
    if field.kind == "str":
        return Body(Writer.text, Verifier.text)
    if field.kind == "bytes":
        return Body(Writer.blob, Verifier.blob)
    cls = cast(type, field.message)  # its table is looked up when needed: a class may contain itself
    return Body(
        lambda writer, message: table_of(cls).write(writer, message),
        lambda verifier, at: table_of(cls).read(verifier, at),
    )


def _list(field: Field) -> Body:
    kind = field.kind
    if kind in CODES:
        return Body(lambda writer, values: writer.scalars(kind, values), _scalars_of(kind, field.enum))
    if kind == "struct":
        inline = inline_of(cast(type, field.message))
        return Body(
            lambda writer, values: writer.structs(values, inline), lambda verifier, at: verifier.structs(inline, at)
        )
    element = _body(field)
    if kind == "bytes":  # FlatBuffers has no vector of vectors
        wrapped = Table(
            [Slot("value", "I", len, body=element)], lambda value: (value,), lambda values: values.get("value", b"")
        )
        element = Body(wrapped.write, wrapped.read)
    write, read = element.write, element.read
    return Body(lambda writer, values: writer.vector(values, write), lambda verifier, at: verifier.vector(at, read))


def _scalars_of(kind: str, enum: type[IntEnum] | None) -> Callable[[Verifier, int], list[Any]]:
    if enum is None:
        return lambda verifier, at: verifier.scalars(kind, at)
    return lambda verifier, at: [member(enum, value) for value in verifier.scalars(kind, at)]


def _map(field: Field) -> Body:
    # Both are written even where empty: keys are required, and a peer's dictionary should not hold null.
    key = Slot("key", "I", _always, body=Body(Writer.text, Verifier.text))
    value = _slot(Field("value", field.kind, "one", field.message, enum=field.enum))
    if value.kind not in CODES:
        value = replace(value, is_present=_always)
    absent: Callable[[], Any] = _ABSENT.get(field.kind) or cast(type, field.message)

    def make(values: dict[str, Any]) -> tuple[str, Any]:
        return values.get("key", ""), values["value"] if "value" in values else absent()

    entries = Table([key, value], lambda pair: pair, make)

    def write(writer: Writer, mapping: Mapping[str, Any]) -> int:
        if not isinstance(mapping, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misfit(f"{reprlib.repr(mapping)} is {type(mapping).__name__}, expected a dict", TypeError)
        return writer.vector(sorted(mapping.items(), key=_key), entries.write)

    def read(verifier: Verifier, at: int) -> dict[str, Any]:
        pairs = verifier.vector(at, entries.read)
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise Misfit(f"the map at byte {at} has {len(pairs)} entries but only {len(mapping)} different keys")
        return mapping

    return Body(write, read)


_ABSENT: dict[str, Callable[[], Any]] = {
    "f32": float,
    "f64": float,
    "i32": int,
    "u32": int,
    "u64": int,
    "bool": bool,
    "str": str,
    "bytes": bytes,
}


def _key(pair: tuple[Any, Any]) -> bytes:
    """Keys are sorted by their UTF-8 bytes, which is how every peer searches them."""
    return pair[0].encode(errors="surrogatepass") if isinstance(pair[0], str) else b""


def _has_bits(value: float) -> bool:
    """-0.0 equals 0.0 and is still another number; NaN equals nothing and is kept too."""
    return value != 0 or math.copysign(1.0, value) < 0


def _is_not_zero(value: Any) -> bool:
    return value != 0  # nor are None and "", which then turn out to be no numbers


def _is_no_empty_text(value: Any) -> bool:
    return value != ""


def _is_no_empty_blob(value: Any) -> bool:
    return not isinstance(value, bytes | bytearray | memoryview) or len(value) > 0  # pyright: ignore[reportUnknownArgumentType]


def _is_true(value: Any) -> bool:
    """Everything in Python is true or false, "no" is true: what is not meant as one must not become one."""
    if not isinstance(value, int) and getattr(getattr(value, "dtype", None), "kind", "") != "b":
        raise Misfit(f"{reprlib.repr(value)} is {type(value).__name__}, expected a bool", TypeError)
    return bool(value)


def _is_given_bool(value: Any) -> bool:
    if value is not None:
        _is_true(value)
    return value is not None


def _is_given(message: Any) -> bool:
    return message is not None


def _always(value: Any) -> bool:
    return True
