"""Checks and converts the values of message fields: those that callers pass, and those in a message to be encoded.

    convert = converter(field)       # of an argument: "fast" -> SimulationMode.FAST, (0, 0, 1) -> Vec3(0, 0, 1)
    request = message_from(cls, values)      # a message of a mapping from field names to such arguments
    message = checked(message)       # an equal message of plain lists, dicts and Python values, all within range

Nothing is rounded, cut or wrapped around: a value that its field cannot hold raises EncodeError with the field's path.
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
from numpy.typing import NDArray

from lucky_transport.errors import did_you_mean
from lucky_transport.messages import EntityId
from lucky_transport.messages.fields import MAX_DEPTH, Field, fields_of

Convert = Callable[[Any], Any]

_LARGEST_F32 = 3.4028235677973366e38  # what is larger rounds to infinity
_BOOLS: tuple[type[Any], ...] = (bool, np.bool_)
_TRUTHS: tuple[type[Any], ...] = (int, np.bool_)
_BYTES: tuple[type[Any], ...] = (bytes, bytearray, memoryview)
#: Of each kind of integer the name and the limits.
_INTEGERS = {
    "i32": ("int32", -(2**31), 2**31 - 1),
    "u32": ("uint32", 0, 2**32 - 1),
    "u64": ("uint64", 0, 2**64 - 1),
}


class EncodeError(ValueError):
    """A value that its field cannot hold: `path` leads to the field, "StepRequest.groups[2].count".

    A value of a wrong type is an `EncodeTypeError`, which is a TypeError too.
    """

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text, path)
        self.text = text
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text

    def within(self, part: str) -> EncodeError:
        """Return the error with `part` (".field", "[index]", the root's name) in front of its path."""
        return type(self)(self.text, part + self.path)


class EncodeTypeError(EncodeError, TypeError):
    """A value of a type that its field does not take."""


def converter(field: Field) -> Convert:
    """Return the function that turns a caller's argument into the field's value; it raises EncodeError.

    It takes any integer or real number type, arrays and sequences for lists, an enum's member, number or name, a
    sequence for a struct, and a number for an EntityId.
    """
    if field.shape == "list" and field.kind in ("f32", "f64"):
        return _numbers(field.kind)
    return shaped(field, argument(field))


def message_from(cls: type[Any], values: Mapping[Any, Any]) -> Any:
    """Return a message of class `cls` from its fields' values by name; raises EncodeError, for unknown names too."""
    known = {field.name: field for field in fields_of(cls)}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_field(name, known)
        try:
            found[name] = converter(known[name])(value)
        except EncodeError as error:
            raise error.within(f".{name}") from None
    return cls(**found)


def unknown_field(name: str, known: Iterable[str]) -> EncodeError:
    """Return the error for a name that is no field's; `known` are."""
    names = list(known)
    return EncodeError(f"no field {name!r}; {did_you_mean(name, names)}known: {', '.join(names)}")


def checked(message: Any) -> Any:
    """Return an equal message of plain lists, dicts, messages and Python values, each within its field's range.

    It takes whatever can be encoded: of what `converter` takes neither names of enums nor sequences for structs, but
    numbers that no member of the enum has, and bools for numbers.
    Raises EncodeError with the path from the message's class on, "AgentSchema.action_names[2]".
    """
    cls = cast("type[Any]", type(message))
    try:
        return _checked(cls, message, 1)
    except EncodeError as error:
        raise error.within(cls.__name__) from None


def _checked(cls: type[Any], message: Any, depth: int) -> Any:
    if not isinstance(message, cls):
        raise _wrong(cls.__name__, message)
    if depth > MAX_DEPTH:
        raise EncodeError(f"tables nested deeper than {MAX_DEPTH}")
    values: dict[str, Any] = {}
    for field in fields_of(cls):
        try:
            values[field.name] = shaped(field, _content(field, depth))(getattr(message, field.name))
        except EncodeError as error:
            raise error.within(f".{field.name}") from None
    return cls(**values)


def _content(field: Field, depth: int) -> Convert:
    """Return the check of one value in a message that is `depth` messages deep."""
    if field.message is not None:
        cls = field.message
        return lambda value: _checked(cls, value, depth + 1)
    if field.kind in _INTEGERS:
        return _integer(field.kind, _index)
    return {"f32": _f32_of(_float), "f64": _float, "bool": _truth, "str": _str, "bytes": _bytes}[field.kind]


def argument(field: Field) -> Convert:
    """Return the conversion of one value of a field, of those in its list or map for instance."""
    if field.enum is not None:
        return _enum(field.enum)
    if field.message is not None:
        return _entity if field.message is EntityId else _message(field.message, is_struct=field.kind == "struct")
    if field.kind in _INTEGERS:
        return _integer(field.kind, _whole)
    return {"f32": _f32, "f64": _real, "bool": _bool, "str": _str, "bytes": _bytes}[field.kind]


def _wrong(expected: str, value: Any) -> EncodeTypeError:
    return EncodeTypeError(f"expected {expected}, got {_shown(value)} of type {type(value).__name__}")


# One value.


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong("a whole number", value) from None


def _whole(value: Any) -> int:
    if isinstance(value, _BOOLS):
        raise _wrong("a whole number", value)
    return _index(value)


def _integer(kind: str, index: Callable[[Any], int]) -> Convert:
    name, low, high = _INTEGERS[kind]

    def convert(value: Any) -> int:
        if type(value) is not int:
            value = index(value)
        if not low <= value <= high:
            raise EncodeError(f"{value} is outside {name} ({low} to {high})")
        return value

    return convert


def _float(value: Any) -> float:
    if hasattr(value, "__float__") or hasattr(value, "__index__"):
        try:
            return float(value)
        except OverflowError:
            raise EncodeError(f"{_shown(value)} is outside float64") from None
        except (TypeError, ValueError):
            pass
    raise _wrong("a number", value)


def _real(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, _BOOLS) or not isinstance(value, Real):
        raise _wrong("a number", value)
    return _float(value)


def _f32_of(number_of: Callable[[Any], float]) -> Convert:
    def convert(value: Any) -> float:
        number = number_of(value)
        if not -_LARGEST_F32 < number < _LARGEST_F32 and abs(number) != inf and number == number:
            raise EncodeError(f"{number} is outside float32 (-3.4028235e+38 to 3.4028235e+38)")
        return number

    return convert


_f32 = _f32_of(_real)


def _bool(value: Any) -> bool:
    if not isinstance(value, _BOOLS):
        raise _wrong("True or False", value)
    return bool(value)


def _truth(value: Any) -> bool:
    """Return a bool or an integer as a bool: "no" is true in Python, and no bool."""
    if not isinstance(value, _TRUTHS):
        raise _wrong("True or False", value)
    return bool(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"{_shown(value)} is no legal text: {error.reason} at {error.start}") from None
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, _BYTES):
        raise _wrong("bytes", value)
    return bytes(value)


def _enum(enum: type[IntEnum]) -> Convert:
    by_name = {name.lower(): each for name, each in enum.__members__.items()}
    number_of = _integer("i32", _whole)

    def convert(value: Any) -> IntEnum:
        if isinstance(value, enum):
            return value
        if isinstance(value, str):
            found = by_name.get(value.lower())
            if found is None:
                raise EncodeError(f"no {enum.__name__} is called {value!r}; there are: {', '.join(by_name)}")
            return found
        if isinstance(value, IntEnum):
            raise _wrong(f"a {enum.__name__} or its name", value)
        number = number_of(value)
        if number not in enum.__members__.values():
            raise EncodeError(f"no {enum.__name__} has the number {number}; there are: {', '.join(by_name)}")
        return enum(number)

    return convert


_entity_number = _integer("u64", _whole)


def _entity(value: Any) -> EntityId:
    return value if isinstance(value, EntityId) else EntityId(_entity_number(value))


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
            raise EncodeError(f"{len(items)} values for the {len(parts)} of {cls.__name__} ({names})")
        return cls(*(part(item) for part, item in zip(parts, items, strict=True)))

    return convert


# Lists, maps, and what may be None.


def shaped(field: Field, one: Convert) -> Convert:
    """Return the conversion of a whole field from that of one value."""
    if field.shape == "list":
        return _list(one)
    if field.shape == "map":
        return _map(one)
    return _or_none(one) if field.optional or field.message is not None else one


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _items(value: Any) -> list[Any]:
    if type(value) is list:
        return cast("list[Any]", value).copy()
    if isinstance(value, np.ndarray):
        vector = cast("NDArray[Any]", value)
        if vector.ndim != 1:
            raise EncodeError(f"an array of shape {vector.shape}, expected one axis")
        return vector.tolist()
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | Mapping):
        raise _wrong("a sequence", cast("Any", value))
    return list(cast("Iterable[Any]", value))


def _list(convert: Convert) -> Convert:
    def convert_all(value: Any) -> list[Any]:
        converted: list[Any] = []
        for index, item in enumerate(_items(value)):
            try:
                converted.append(convert(item))
            except EncodeError as error:
                raise error.within(f"[{index}]") from None
        return converted

    return convert_all


def _numbers(kind: str) -> Convert:
    """Return the converter of a list of floats: a whole vector at once where it is one, item by item to find fault."""
    slowly = _list(_f32 if kind == "f32" else _real)

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
            except EncodeError as error:
                raise error.within(f"[{_shown(key)}]") from None
        return converted

    return convert_all
