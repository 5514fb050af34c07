"""Requests that something is wrong with: good ones, corrupted in one to three places.

`corrupt` makes what every wire can carry: the cases of `value_cases`, unknown ids, broken and enormous names, vectors
of wrong lengths, parts that are missing or empty. `unsendable` makes what no wire can carry: a number out of its type's
range, a value of another type, text that is none. A client has to refuse it before anything is sent.
"""

from __future__ import annotations

import math
from typing import Any

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.scalars import is_struct
from lucky_transport_migration.parity.request_generator import RequestGenerator

__all__ = ["corrupt", "unsendable"]

#: What an engine may take for a name, beside the cases of all text.
_TEXTS = ("agent_99", "agent_-1", "agent_00", "../../etc/passwd", "null", '{"a": NaN', "x" * 700, "ü" * 5000)
_UNSENDABLE: dict[str, tuple[Any, ...]] = {
    "i32": (2**31, -(2**31) - 1, 1.5, "7", None),
    "u32": (-1, 2**32, 1.5, "7", None),
    "u64": (-1, 2**64, 1.5, "7", None),
    "f32": ("1.0", None, [1.0], 1e39, 10**400),
    "f64": ("1.0", None, [1.0], 10**400),
    "bool": ("yes", None, [True]),
    "str": ("\ud800", 7, None, b"text"),
    "bytes": ("text", 7, None),
    "message": (5, "text", [1]),
    "struct": (5, "text", [1]),
}

#: Elements of a list that is too long: texts and messages are long themselves, and every wire has to carry it.
_LONG = 300
_FEW = 20


def corrupt(request: Any, make: RequestGenerator) -> Any:
    """Return `request`, changed in one to three places; one without fields stays as it is."""
    if make.chance(10):
        return type(request)()
    for _ in range(make.integer(1, 3)):
        _corrupt_field(request, make)
    return request


def unsendable(request: Any, make: RequestGenerator) -> Any:
    """Return `request` with one value that no wire can carry; one without fields stays as it is."""
    rows = fields_of(type(request))
    if not rows:
        return request
    field = make.choice(rows)
    inner = getattr(request, field.name)
    if field.shape == "one" and field.message is not None and type(inner) is field.message and make.chance(60):
        unsendable(inner, make)
        return request
    wrong = make.choice(_UNSENDABLE[field.kind])
    if wrong is None and (field.optional or field.message is not None):
        wrong = "text"  # nothing is a value here
    if field.shape == "list":
        wrong = make.choice(([wrong], None, 5)) if wrong is not None else None
    elif field.shape == "map":
        wrong = make.choice(({"key": wrong}, {7: 0.0}, None))
    setattr(request, field.name, wrong)
    return request


def _corrupt_field(message: Any, make: RequestGenerator) -> None:
    rows = fields_of(type(message))
    if rows:
        field = make.choice(rows)
        setattr(message, field.name, _wrong(field, getattr(message, field.name), make))


def _wrong(field: Field, value: Any, make: RequestGenerator) -> Any:
    one = _one(field, make)
    if field.shape == "list":
        many = [one] * (_FEW if field.kind in ("str", "bytes", "message") else _LONG)
        return make.choice(([], value[:-1], [*value, one], many, [one, *value[1:]], [*value, *value]))
    if field.shape == "map":
        return {**value, make.choice(_TEXTS): one, "further": one}
    if field.message is not None and value is not None and make.chance(70):
        _corrupt_field(value, make)
        return value
    if (field.optional or field.message is not None) and make.chance(30):
        return None
    if field.kind == "str" and value and make.chance(50):
        return make.choice((value[:-1], value.upper(), value + "x", value + "\0", value * 2))
    return one


def _one(field: Field, make: RequestGenerator) -> Any:
    if field.message is not None:
        made = field.message()
        if is_struct(field.message) or make.chance(60):
            _corrupt_field(made, make)
        return made
    if field.kind == "str" and make.chance(50):
        return make.choice(_TEXTS)
    value = make.case(field.kind)
    if field.kind in ("f32", "f64") and math.isnan(value):
        return math.nan  # no wire promises to keep other bits of one
    return value if field.enum is None else member(field.enum, value)
