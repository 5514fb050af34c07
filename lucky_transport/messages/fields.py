"""What each field of a message is, read from its annotation; every codec is derived from it.

A field is a scalar, text, bytes, a message, a list of one of these, or a map from text to one of these.
"""

from __future__ import annotations

import types
from dataclasses import fields
from enum import EnumType, IntEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from lucky_transport.messages.scalars import is_struct

#: Messages within messages; FlatBuffers' own verifiers stop at 64 too.
MAX_DEPTH = 64


class Field(NamedTuple):
    """One field: `kind` is f32, f64, i32, u32, u64, bool, str, bytes, message or struct (then `message` is its class);
    `shape` is "one", "list" or "map" (text to `kind`). A message or struct that is "one" may be None.

    optional: a scalar that is None where it is absent, distinct from zero; for text and bytes, absent and empty are
    the same. enum: the class of an integer that is a member of an enum; see `member`.
    """

    name: str
    kind: str
    shape: str
    message: type | None = None
    optional: bool = False
    enum: type[IntEnum] | None = None


@cache
def fields_of(message: type) -> tuple[Field, ...]:
    """Return the fields of a message class, in wire order; raises TypeError for an annotation no codec knows."""
    hints = get_type_hints(message, include_extras=True)
    return tuple(_field(message, f.name, hints[f.name]) for f in fields(message))


def member(enum: type[IntEnum], value: int) -> int:
    """Return the enum's member of that value; the value itself when only a newer peer knows it."""
    return _members(enum).get(value, value)


@cache
def _members(enum: type[IntEnum]) -> dict[int, int]:
    return {int(each): each for each in enum}


def _field(message: type, name: str, annotation: Any) -> Field:
    shape, optional, hint = "one", False, annotation
    origin = get_origin(hint)
    if origin is list:
        shape, hint = "list", get_args(hint)[0]
    elif origin is dict:
        shape, hint = "map", get_args(hint)[1]
    elif origin in (Union, types.UnionType):
        optional, hint = True, next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        base, kind = get_args(hint)
        enum = cast("type[IntEnum]", base) if isinstance(base, EnumType) else None
        return Field(name, kind, shape, None, optional, enum)
    if hint is bool or (hint in (str, bytes) and not optional):
        return Field(name, hint.__name__, shape, None, optional)
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return Field(name, "struct" if is_struct(hint) else "message", shape, hint)
    raise TypeError(f"{message.__name__}.{name}: no codec knows the type {annotation!r}")
