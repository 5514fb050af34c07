"""What each field of a message is, read from its annotation; the one source from which all codecs are derived.

Rule 1: a field is a scalar, text, bytes, a message, a list of one of these, or a map from text to one of these.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from lucky_transport.messages.scalars import is_struct

__all__ = ["Field", "fields_of"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is f32, f64, i32, u32, u64, bool, str, bytes, message or struct (then `message` is its class);
    `shape` is "one", "list" or "map" (text to `kind`). A message or struct that is "one" may be None.
    """

    name: str
    kind: str
    shape: str
    message: type | None = None


@cache
def fields_of(message: type) -> tuple[Field, ...]:
    """Return the fields of a message class, in wire order; raises TypeError for an annotation no codec knows."""
    hints = get_type_hints(message, include_extras=True)
    return tuple(_field(message, f.name, hints[f.name]) for f in fields(message))


def _field(message: type, name: str, hint: Any) -> Field:
    shape = "one"
    origin = get_origin(hint)
    if origin is list:
        shape, hint = "list", get_args(hint)[0]
    elif origin is dict:
        shape, hint = "map", get_args(hint)[1]
    elif origin in (Union, types.UnionType):
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        return Field(name, get_args(hint)[1], shape)
    if hint in (bool, str, bytes):
        return Field(name, hint.__name__, shape)
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return Field(name, "struct" if is_struct(hint) else "message", shape, hint)
    raise TypeError(f"{message.__name__}.{name}: no codec knows the type {hint!r}")
