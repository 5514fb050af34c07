"""FlatBuffers for every message class, derived from its fields.

    data = encode(GetAgentSchemaRequest(agent_name="agent_0"))  # any FlatBuffers peer reads it: schema/hazel_rpc.fbs
    message = decode(GetAgentSchemaRequest, data)               # verified while it is read

Rule 1: field i of a dataclass is slot i of its table; defaults are not written; nothing is declared a second time.
Rule 2: a map is a vector of {key, value} tables sorted by key; a list of bytes is a vector of {value} tables.
Rule 3: bytes from a peer raise RemoteProtocolError and nothing else; values from our caller TypeError or ValueError.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

from lucky_transport.codec.place import Misfit
from lucky_transport.codec.table import Body, Slot, Table
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import CODES, Writer
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.fields import Field, fields_of

__all__ = ["decode", "encode"]

M = TypeVar("M")


def encode(message: Any, *, prefix_bytes: int = 0) -> bytes:
    """Return the message as a FlatBuffers buffer, aligned for being read `prefix_bytes` behind an 8-byte boundary.

    Raises TypeError or ValueError, with the field's path and value, for what does not fit the field's type.
    """
    cls = cast("type[Any]", type(message))
    writer = Writer(prefix_bytes)
    try:
        return writer.finish(_table_of(cls).write(writer, message))
    except Misfit as misfit:
        raise misfit.kind(f"{misfit.place(cls.__name__)}: {misfit.text}") from misfit.__cause__


def decode(cls: type[M], data: bytes) -> M:
    """Return the message of class `cls` that `data` holds; absent fields have their defaults.

    Raises RemoteProtocolError, with the field's path and the offending values, for anything but a sound buffer.
    """
    verifier = Verifier(bytes(data))
    try:
        return _table_of(cls).read(verifier, verifier.root())
    except Misfit as misfit:
        raise RemoteProtocolError(
            f"malformed {misfit.place(cls.__name__)} in {verifier.size} bytes: {misfit.text}",
            hint="the peer is broken or speaks another protocol",
        ) from misfit.__cause__


@cache
def _table_of(cls: type) -> Table:
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
        return Slot(field.name, CODES[field.kind], _has_bits if field.kind == "f32" else bool, field.kind)
    if field.shape == "list":
        return Slot(field.name, "I", len, body=_list(field))
    if field.shape == "map":
        return Slot(field.name, "I", len, body=_map(field))
    return Slot(field.name, "I", _is_given if field.kind == "message" else len, body=_body(field))


def _body(field: Field) -> Body:
    """Return how one text, byte string or message is written."""
    if field.kind == "str":
        return Body(Writer.text, Verifier.text)
    if field.kind == "bytes":
        return Body(Writer.blob, Verifier.blob)
    cls = cast(type, field.message)  # its table is looked up when needed: a class may contain itself
    return Body(
        lambda writer, message: _table_of(cls).write(writer, message),
        lambda verifier, at: _table_of(cls).read(verifier, at),
    )


def _list(field: Field) -> Body:
    kind = field.kind
    if kind in CODES:
        return Body(
            lambda writer, values: writer.scalars(kind, values), lambda verifier, at: verifier.scalars(kind, at)
        )
    element = _body(field)
    if kind == "bytes":  # FlatBuffers has no vector of vectors
        wrapped = Table(
            [Slot("value", "I", len, body=element)], lambda value: (value,), lambda values: values.get("value", b"")
        )
        element = Body(wrapped.write, wrapped.read)
    write, read = element.write, element.read
    return Body(lambda writer, values: writer.vector(values, write), lambda verifier, at: verifier.vector(at, read))


def _map(field: Field) -> Body:
    # Both are written even where empty: keys are required, and a peer's dictionary should not hold null.
    key = Slot("key", "I", _always, body=Body(Writer.text, Verifier.text))
    value = _slot(Field("value", field.kind, "one", field.message))
    if value.body is not None:
        value = Slot("value", "I", _always, body=value.body)
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


def _is_given(message: Any) -> bool:
    return message is not None


def _always(value: Any) -> bool:
    return True
