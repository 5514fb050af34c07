"""Messages as JSON of the protocol, derived from the message dataclasses.

    CartPoleState(cart_position=0.5, ...)   <->   {"CartPosition":0.5,...}

Keys are the field names in CamelCase.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import numpy as np

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.nesting import parse_json

__all__ = ["JsonCodec", "camel_case", "codec_of", "compact", "snake_case"]


def _of_numpy(value: Any) -> Any:
    """Return NumPy's numbers and arrays as plain data; policies produce them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is {type(value).__name__}, which JSON does not know")


_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_of_numpy)
_Convert = Callable[[Any], Any]


def camel_case(name: str) -> str:
    """Return "CartPosition" for "cart_position"."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def snake_case(name: str) -> str:
    """Return "cart_position" for "CartPosition"."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def compact(value: Any) -> str:
    """Return plain JSON data as one word. Raises ValueError for NaN and infinity, TypeError for what is no JSON."""
    text = _encoder.encode(value)
    return text.replace(" ", "\\u0020") if " " in text else text  # blanks can only be inside strings


@cache
def codec_of(cls: type) -> JsonCodec:
    """Return the codec of a message class. Raises TypeError for an annotation no codec knows."""
    return JsonCodec(cls)


class JsonCodec:
    """Writes and reads messages of one class; made by `codec_of`.

    Keys are the field names in CamelCase. The text is one word of ASCII, also inside strings: readers split lines at
    blanks. What a peer sends is checked against the fields; unknown keys are ignored, missing ones have their defaults.
    """

    def __init__(self, cls: type) -> None:
        self._cls: type[Any] = cls
        self._fields = [
            (camel_case(field.name), field.name, _writer(field), _reader(field)) for field in fields_of(cls)
        ]

    def encode(self, message: Any) -> str:
        """Return the message as one word of JSON. Raises ValueError for NaN, infinity and values that do not fit."""
        try:
            return compact(self.plain(message))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self._cls.__name__} is no JSON: {error}") from error

    def decode(self, text: str) -> Any:
        """Return the message in `text`. Raises ValueError naming the field that does not fit."""
        try:
            value = parse_json(text)
        except ValueError as error:
            raise ValueError(f"{self._cls.__name__}: {text[:80]!r} is no JSON: {error}") from error
        return self.of_plain(value)

    def plain(self, message: Any) -> dict[str, Any]:
        """Return the message as plain JSON data."""
        return {
            key: getattr(message, name) if write is None else write(getattr(message, name))
            for key, name, write, _ in self._fields
        }

    def of_plain(self, value: Any) -> Any:
        """Return the message that plain JSON data says. Raises ValueError."""
        if not isinstance(value, dict):
            raise ValueError(f"{self._cls.__name__}: {value!r} is no JSON object")
        given = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        for key, name, _, read in self._fields:
            if key in given:
                try:
                    found[name] = read(given[key])
                except (ValueError, TypeError, OverflowError) as error:
                    raise ValueError(f"{self._cls.__name__}.{key}: {error}") from error
        return self._cls(**found)


def _writer(field: Field) -> _Convert | None:
    """Return what makes a field's value plain, None when it is plain already."""
    one = _one_writer(field)
    if one is None:
        return None
    if field.shape == "list":
        return lambda values: [one(value) for value in values]
    if field.shape == "map":
        return lambda values: {key: one(value) for key, value in values.items()}
    return one


def _one_writer(field: Field) -> _Convert | None:
    if field.kind == "bytes":
        return lambda value: base64.b64encode(value).decode()
    if field.message is not None:
        cls = field.message  # its codec is looked up when needed: a class may contain itself
        return lambda value: None if value is None else codec_of(cls).plain(value)
    return None


def _reader(field: Field) -> _Convert:
    one = _one_reader(field)
    if field.shape == "list":
        return lambda value: [one(each) for each in _expect(value, list, "a list")]
    if field.shape == "map":
        return lambda value: {str(key): one(each) for key, each in _expect(value, dict, "an object").items()}
    if field.optional or field.kind in ("message", "struct"):
        return lambda value: None if value is None else one(value)
    return one


def _one_reader(field: Field) -> _Convert:
    if field.message is not None:
        cls = field.message
        return lambda value: codec_of(cls).of_plain(value)
    if field.enum is not None:
        enum = field.enum
        return lambda value: member(enum, _integer(value))
    return _READERS[field.kind]


def _expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{value!r} is not {what}")
    return value


def _integer(value: Any) -> int:
    return _expect(value, int, "an integer")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _blob(value: Any) -> bytes:
    try:
        return base64.b64decode(_expect(value, str, "base64 text"), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{value!r} is not base64 text") from error


_READERS: Mapping[str, _Convert] = {
    "f32": _number,
    "f64": _number,
    "i32": _integer,
    "u32": _integer,
    "u64": _integer,
    "bool": lambda value: _expect(value, bool, "true or false"),
    "str": lambda value: _expect(value, str, "text"),
    "bytes": _blob,
}
