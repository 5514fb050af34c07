"""Messages as JSON, and their schemas: what an agent reads and writes.

Members of an enum are their names. A message within itself ends the schema of its fields.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.json_codec import JsonStyle

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


_STYLE = JsonStyle()


def plain_of(message: Any) -> dict[str, Any]:
    """Return a message as JSON values."""
    return _STYLE.codec_of(type(message)).plain(message)


def message_of(cls: type[Any], values: Any) -> Any:
    """Return the message that JSON values describe. Raises EncodeError with the path of what is wrong."""
    return _STYLE.codec_of(cls).message(values)
