"""Messages as JSON, and their schemas: what an agent reads and writes.

Bytes are base64 text, members of an enum are their names. A message within itself ends the schema of its fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, cast

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.values import EncodeError, message_from

__all__ = ["message_of", "plain_of", "schema_of"]

_SCALARS: dict[str, dict[str, Any]] = {
    "f32": {"type": "number"},
    "f64": {"type": "number"},
    "i32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "u32": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    "u64": {"type": "integer", "minimum": 0},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


def schema_of(cls: type[Any], above: tuple[type[Any], ...] = ()) -> dict[str, Any]:
    """Return the JSON schema of a message class. above: the messages that it is a field of."""
    schema: dict[str, Any] = {"type": "object"}
    text = (cls.__doc__ or "").strip()
    if text and not text.startswith(f"{cls.__name__}("):  # a dataclass without a docstring shows its signature
        schema["description"] = " ".join(text.split())
    if cls in above:
        return schema
    properties = {field.name: _field_schema(field, (*above, cls)) for field in fields_of(cls)}
    return {**schema, "properties": properties, "additionalProperties": False}


def _field_schema(field: Field, above: tuple[type[Any], ...]) -> dict[str, Any]:
    if field.message is not None:
        one = schema_of(field.message, above)
    elif field.enum is not None:
        one = {"type": "string", "enum": list(field.enum.__members__)}
    else:
        one = dict(_SCALARS[field.kind])
    if field.shape == "list":
        return {"type": "array", "items": one}
    if field.shape == "map":
        return {"type": "object", "additionalProperties": one}
    return one


def plain_of(message: Any) -> dict[str, Any]:
    """Return a message as JSON values."""
    return {field.name: _plain_field(field, getattr(message, field.name)) for field in fields_of(type(message))}


def _plain_field(field: Field, value: Any) -> Any:
    if field.shape == "list":
        return [_plain(field, one) for one in value]
    if field.shape == "map":
        return {key: _plain(field, one) for key, one in value.items()}
    return _plain(field, value)


def _plain(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.message is not None:
        return plain_of(value)
    if field.enum is not None:
        known = member(field.enum, value)
        return known.name if isinstance(known, IntEnum) else int(value)
    if field.kind == "bytes":
        return base64.b64encode(value).decode()
    return value


def message_of(cls: type[Any], values: Any) -> Any:
    """Return the message that JSON values describe. Raises EncodeError, a ValueError, with the path of what is wrong.

    What a message may be made of besides (a number for an EntityId, a list for a struct) is taken too.
    """
    try:
        return _message(cls, values)
    except EncodeError as error:
        raise error.within(cls.__name__) from None


def _message(cls: type[Any], values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise EncodeError(f"expected an object with fields of {cls.__name__}, got {type(values).__name__}")
    known = {field.name: field for field in fields_of(cls)}
    given = cast("Mapping[str, Any]", values)
    return message_from(
        cls, {name: _read(known[name], value) if name in known else value for name, value in given.items()}
    )


def _read(field: Field, value: Any) -> Any:
    try:
        if field.shape == "list" and isinstance(value, list):
            return [_read_one(field, one) for one in cast("list[Any]", value)]
        if field.shape == "map" and isinstance(value, Mapping):
            return {key: _read_one(field, one) for key, one in cast("Mapping[str, Any]", value).items()}
        return _read_one(field, value)
    except EncodeError as error:
        raise error.within(f".{field.name}") from None


def _read_one(field: Field, value: Any) -> Any:
    if field.message is not None and isinstance(value, Mapping):
        return _message(field.message, value)
    if field.kind == "bytes" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise EncodeError(f"no base64: {error}") from None
    return value
