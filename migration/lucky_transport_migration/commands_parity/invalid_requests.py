"""Requests that something is wrong with: good ones, corrupted in one to three places.

`corrupt` makes what every wire can carry: numbers at and beyond every edge, unknown ids, broken and enormous names,
vectors of wrong lengths, parts that are missing or empty. `unsendable` makes what no wire can carry: a number out of
its type's range, a value of another type, text that is none. A client has to refuse it before anything is sent.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.scalars import is_struct
from lucky_transport_migration.commands_parity.float32 import f32

__all__ = ["corrupt", "unsendable"]

_LARGEST = 3.4028234663852886e38
_FLOATS = tuple(map(f32, (0.0, -0.0, -1.0, 1e-45, 1e9, -1e30, _LARGEST, -_LARGEST, math.inf, -math.inf, math.nan)))
_TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "agent_99",
    "agent_-1",
    "agent_00",
    "Zoë 机器人 👾",
    "../../etc/passwd",
    "%s%n{}",
    "null",
    '{"a": [1, {}]}',
    '{"a": NaN',
    "x" * 700,
    "ü" * 5000,
)
_INTEGERS = {
    "i32": (0, 1, 3, -1, 99, 65536, 2**31 - 1, -(2**31)),
    "u32": (0, 1, 3, 99, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1),
    "u64": (0, 1, 3, 99, 2**31, 2**32, 2**63, 2**64 - 1),
}
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


def corrupt(request: Any, random: Random) -> Any:
    """Return `request`, changed in one to three places; one without fields stays as it is."""
    if random.random() < 0.1:
        return type(request)()
    for _ in range(random.randint(1, 3)):
        _spoil(request, random)
    return request


def unsendable(request: Any, random: Random) -> Any:
    """Return `request` with one value that no wire can carry; one without fields stays as it is."""
    rows = fields_of(type(request))
    if not rows:
        return request
    field = random.choice(rows)
    inner = getattr(request, field.name)
    if field.shape == "one" and field.message is not None and type(inner) is field.message and random.random() < 0.6:
        unsendable(inner, random)
        return request
    wrong = random.choice(_UNSENDABLE[field.kind])
    if wrong is None and (field.optional or field.message is not None):
        wrong = "text"  # nothing is a value here
    if field.shape == "list":
        wrong = random.choice(([wrong], None, 5)) if wrong is not None else None
    elif field.shape == "map":
        wrong = random.choice(({"key": wrong}, {7: 0.0}, None))
    setattr(request, field.name, wrong)
    return request


def _spoil(message: Any, random: Random) -> None:
    rows = fields_of(type(message))
    if rows:
        field = random.choice(rows)
        setattr(message, field.name, _wrong(field, getattr(message, field.name), random))


def _wrong(field: Field, value: Any, random: Random) -> Any:
    if field.shape == "list":
        return _list(field, value, random)
    if field.shape == "map":
        return {**value, random.choice(_TEXTS): _one(field, random), "further": _one(field, random)}
    if field.message is not None and value is not None and random.random() < 0.7:
        _spoil(value, random)
        return value
    if (field.optional or field.message is not None) and random.random() < 0.3:
        return None
    if field.kind == "str" and value and random.random() < 0.5:
        return random.choice((value[:-1], value.upper(), value + "x", value + "\0", value * 2))
    return _one(field, random)


def _list(field: Field, values: list[Any], random: Random) -> list[Any]:
    match random.randrange(6):
        case 0:
            return []
        case 1:
            return values[:-1]
        case 2:
            return [*values, _one(field, random)]
        case 3:
            return [_one(field, random)] * (_LONG if field.kind not in ("str", "bytes", "message") else _FEW)
        case 4 if values:
            at = random.randrange(len(values))
            return [*values[:at], _one(field, random), *values[at + 1 :]]
        case _:
            return [*values, *values]


def _one(field: Field, random: Random) -> Any:
    if field.message is not None:
        made = field.message()
        if is_struct(field.message) or random.random() < 0.6:
            _spoil(made, random)
        return made
    match field.kind:
        case "bool":
            return random.random() < 0.5
        case "str":
            return random.choice(_TEXTS)
        case "bytes":
            return random.randbytes(random.choice((0, 1, 5, 3000)))
        case "f32":
            return random.choice((*_FLOATS, f32(random.uniform(-10, 10))))
        case "f64":
            return random.choice((*_FLOATS, random.uniform(-10, 10), 1e308))
        case _:
            value = random.choice(_INTEGERS[field.kind])
            return value if field.enum is None else member(field.enum, value)
