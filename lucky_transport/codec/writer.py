"""The generic writer: any message that can be encoded, by `flatbuffers.Builder`, after all its values were checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, cast

from flatbuffers import Builder  # pyright: ignore[reportMissingTypeStubs]

from lucky_transport.codec.layout import CODES, WIDTHS, WRAPPED_BYTES, entry_of, slot_of, struct_of
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.values import checked

__all__ = ["encode_generic"]


def encode_generic(message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a buffer, aligned for being read `prefix_bytes` (0, 4, 8 ...) behind an 8-byte boundary.

    Raises EncodeError, with the path of the field, for a value that its field cannot hold.
    """
    builder: Any = Builder(256)
    root = _message(builder, checked(message))
    if prefix_bytes % 8:
        builder.FinishSizePrefixed(root)
        return bytes(builder.Output()[4:])
    builder.Finish(root)
    return bytes(builder.Output())


def _message(builder: Any, message: Any) -> int:
    fields = fields_of(cast("type[Any]", type(message)))
    return _table(builder, fields, [getattr(message, field.name) for field in fields])


def _table(builder: Any, fields: Sequence[Field], values: Sequence[Any], *, is_entry: bool = False) -> int:
    """Append a table and all it refers to; return its offset. is_entry: text and bytes are written even where empty."""
    offsets = [
        _content(builder, field, value) if not _is_inline(field) and (is_entry or _is_present(field, value)) else 0
        for field, value in zip(fields, values, strict=True)
    ]
    builder.StartObject(len(fields))
    for index, (field, value, offset) in enumerate(zip(fields, values, offsets, strict=True)):
        if offset:
            builder.PrependUOffsetTRelativeSlot(index, offset, 0)
        elif _is_inline(field) and _is_present(field, value):
            code, alignment = slot_of(field)
            raw = (
                struct_of(cast(type, field.message)).pack(value)
                if field.kind == "struct"
                else struct.pack(f"<{code}", value)
            )
            builder.Prep(alignment, len(raw))
            _prepend(builder, raw)
            builder.Slot(index)
    return builder.EndObject()


def _is_inline(field: Field) -> bool:
    return field.shape == "one" and (field.kind in CODES or field.kind == "struct")


def _is_present(field: Field, value: Any) -> bool:
    """True where a value differs from the default; -0.0 does."""
    if field.shape == "one" and (field.optional or field.message is not None):
        return value is not None
    return bool(value) or (field.kind in ("f32", "f64") and field.shape == "one" and math.copysign(1.0, value) < 0)


def _content(builder: Any, field: Field, value: Any) -> int:
    """Append what a field's offset points to; return its offset."""
    if field.shape == "map":
        entry = entry_of(field)
        pairs = sorted(value.items())  # by characters, which is the order of the UTF-8 bytes
        return _offsets(builder, [_table(builder, entry, pair, is_entry=True) for pair in pairs])
    if field.shape == "one":
        return _one(builder, field, value)
    if field.kind in CODES:
        raw = struct.pack(f"<{len(value)}{CODES[field.kind]}", *value)
        return _vector(builder, raw, len(value), WIDTHS[field.kind])
    if field.kind == "struct":
        layout = struct_of(cast(type, field.message))
        return _vector(builder, layout.pack_all(value), len(value), layout.alignment)
    if field.kind == "bytes":
        return _offsets(builder, [_table(builder, [WRAPPED_BYTES], [each]) for each in value])
    return _offsets(builder, [_one(builder, field, each) for each in value])


def _one(builder: Any, field: Field, value: Any) -> int:
    if field.kind == "message":
        return _message(builder, value)
    if field.kind == "str":
        return builder.CreateString(value)
    return _vector(builder, value, len(value), 8)  # a buffer in it can be read in place


def _vector(builder: Any, raw: bytes, count: int, alignment: int) -> int:
    builder.StartVector(1, len(raw), alignment)
    builder.vectorNumElems = count
    _prepend(builder, raw)
    return builder.EndVector()


def _prepend(builder: Any, raw: bytes) -> None:
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw


def _offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
