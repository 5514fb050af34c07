"""From what a caller writes to what a message's field holds.

Rule 1: what fits is taken as Python and numpy write it: any integer or real number type, arrays and sequences for
        lists, an enum's member or name, a sequence for a struct (`(0, 0, 1)` for a Vec3), a number for an EntityId.
Rule 2: what does not fit raises TypeError (kind) or ValueError (range) that says what was expected and what came; the
        caller of a converter adds the field's name. Nothing is rounded, cut or wrapped around.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from math import inf
from numbers import Real
from reprlib import repr as _shown
from typing import Any, cast

import numpy as np

from lucky_transport.messages import EntityId
from lucky_transport.messages.fields import Field, fields_of

__all__ = ["Convert", "converter"]

Convert = Callable[[Any], Any]

_LARGEST_F32 = 3.4028235677973366e38  # what is larger rounds to infinity
_BOOLS: tuple[type[Any], ...] = (bool, np.bool_)
_BYTES: tuple[type[Any], ...] = (bytes, bytearray, memoryview)
_RANGES = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1)}


def converter(field: Field) -> Convert:
    """Return the function that turns a caller's value into the field's; it raises TypeError or ValueError."""
    if field.shape == "list":
        return _numbers(field.kind) if field.kind in ("f32", "f64") else _list(_one(field))
    if field.shape == "map":
        return _map(_one(field))
    convert = _one(field)
    return _or_none(convert) if field.optional or field.message is not None else convert


def _one(field: Field) -> Convert:
    if field.enum is not None:
        return _enum(field.enum)
    if field.message is not None:
        return _entity if field.message is EntityId else _message(field.message, is_struct=field.kind == "struct")
    if field.kind in _RANGES:
        return _integer(*_RANGES[field.kind])
    return {"f32": _f32, "f64": _f64, "bool": _bool, "str": _str, "bytes": _bytes}[field.kind]


def _wrong(expected: str, value: Any) -> TypeError:
    return TypeError(f"expected {expected}, got {_shown(value)} of type {type(value).__name__}")


def _integer(low: int, high: int) -> Convert:
    def convert(value: Any) -> int:
        if type(value) is not int:
            if isinstance(value, _BOOLS):
                raise _wrong("a whole number", value)
            try:
                value = operator.index(value)
            except TypeError:
                raise _wrong("a whole number", value) from None
        if not low <= value <= high:
            raise ValueError(f"{value} is not within {low} and {high}")
        return value

    return convert


def _f64(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, _BOOLS) or not isinstance(value, Real):
        raise _wrong("a number", value)
    return float(value)


def _f32(value: Any) -> float:
    number = _f64(value)
    if not -_LARGEST_F32 < number < _LARGEST_F32 and abs(number) != inf and number == number:
        raise ValueError(f"{number} does not fit a 32-bit float")
    return number


def _bool(value: Any) -> bool:
    if not isinstance(value, _BOOLS):
        raise _wrong("True or False", value)
    return bool(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("text", value)
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, _BYTES):
        raise _wrong("bytes", value)
    return bytes(value)


def _enum(enum: type[IntEnum]) -> Convert:
    by_name = {name.lower(): each for name, each in enum.__members__.items()}

    def convert(value: Any) -> IntEnum:
        if isinstance(value, enum):
            return value
        if isinstance(value, str):
            found = by_name.get(value.lower())
            if found is None:
                raise ValueError(f"no {enum.__name__} is called {value!r}; there are: {', '.join(by_name)}")
            return found
        if isinstance(value, IntEnum):
            raise _wrong(f"a {enum.__name__} or its name", value)
        number = _integer(*_RANGES["i32"])(value)
        if number not in enum.__members__.values():
            raise ValueError(f"no {enum.__name__} has the number {number}; there are: {', '.join(by_name)}")
        return enum(number)

    return convert


def _entity(value: Any) -> EntityId:
    return value if isinstance(value, EntityId) else EntityId(_integer(*_RANGES["u64"])(value))


def _message(cls: type[Any], *, is_struct: bool) -> Convert:
    names = ", ".join(field.name for field in fields_of(cls)) if is_struct else ""
    parts = [converter(field) for field in fields_of(cls)] if is_struct else []

    def convert(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not is_struct or not isinstance(value, Iterable) or isinstance(value, str | bytes):
            raise _wrong(f"{cls.__name__} or ({names})" if is_struct else cls.__name__, value)
        items = list(cast("Iterable[Any]", value))
        if len(items) != len(parts):
            raise ValueError(f"{len(items)} values for the {len(parts)} of {cls.__name__} ({names})")
        return cls(*(part(item) for part, item in zip(parts, items, strict=True)))

    return convert


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _items(value: Any) -> list[Any]:
    if type(value) is list:
        return cast("list[Any]", value).copy()
    if isinstance(value, np.ndarray):
        return cast("list[Any]", value.tolist()) if value.ndim == 1 else _refuse(value)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise _wrong("a sequence", cast("Any", value))
    return list(cast("Iterable[Any]", value))


def _refuse(value: Any) -> list[Any]:
    raise ValueError(f"an array of shape {value.shape}, expected one axis")


def _list(convert: Convert) -> Convert:
    def convert_all(value: Any) -> list[Any]:
        converted: list[Any] = []
        for index, item in enumerate(_items(value)):
            try:
                converted.append(convert(item))
            except (TypeError, ValueError) as error:
                raise type(error)(f"item {index}: {error}") from None
        return converted

    return convert_all


def _numbers(kind: str) -> Convert:
    """Return the converter of a list of floats: a whole vector at once where it is one, item by item to find fault."""
    slowly = _list(_f32 if kind == "f32" else _f64)

    def convert(value: Any) -> list[float]:
        items = _items(value)
        numbers, kinds = items, set(map(type, items))
        if kinds != {float}:
            try:
                numbers = array("d", items).tolist()
            except (TypeError, OverflowError):
                return slowly(items)
            if not kinds.isdisjoint(_BOOLS):
                return slowly(items)
        if kind == "f32" and numbers and not (max(numbers) < _LARGEST_F32 and min(numbers) > -_LARGEST_F32):
            return slowly(numbers)  # infinite or NaN, which is fine, or too large, which is not
        return numbers

    return convert


def _map(convert: Convert) -> Convert:
    def convert_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong("a mapping from text", value)
        converted: dict[str, Any] = {}
        for key, item in cast("Mapping[Any, Any]", value).items():
            try:
                converted[_str(key)] = convert(item)
            except (TypeError, ValueError) as error:
                raise type(error)(f"[{_shown(key)}]: {error}") from None
        return converted

    return convert_all
