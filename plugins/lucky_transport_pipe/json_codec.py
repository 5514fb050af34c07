"""Messages and plain data as JSON of the protocol: one word of ASCII, because readers split lines at blanks.

    CartPoleState(cart_position=0.5, ...)   <->   {"CartPosition":0.5,...}

Keys are the field names in CamelCase. What a peer sends is checked against the fields; unknown keys are ignored.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lucky_transport.messages.json_codec import JsonStyle
from lucky_transport.nesting import parse_json


def _of_numpy(value: Any) -> Any:
    """Return NumPy's numbers and arrays as plain data; policies produce them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is {type(value).__name__}, which JSON does not know")


_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_of_numpy)


def camel_case(name: str) -> str:
    """Return "CartPosition" for "cart_position"."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def snake_case(name: str) -> str:
    """Return "cart_position" for "CartPosition"."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


_STYLE = JsonStyle(camel_case, enum_names=False, skips_unknown=True)


def compact(value: Any) -> str:
    """Return plain JSON data as one word. Raises ValueError for NaN and infinity, TypeError for what is no JSON."""
    text = _encoder.encode(value)
    return text.replace(" ", "\\u0020") if " " in text else text  # blanks can only be inside strings


def encode(cls: type[Any], message: Any) -> str:
    """Return a message of class `cls` as one word. Raises ValueError for NaN, infinity and values that do not fit."""
    try:
        return compact(_STYLE.codec_of(cls).plain(message))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{cls.__name__} is no JSON: {error}") from error


def decode(cls: type[Any], text: str) -> Any:
    """Return the message of class `cls` in `text`. Raises ValueError naming the field that does not fit."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{cls.__name__}: {text[:80]!r} is no JSON: {error}") from error
    return _STYLE.codec_of(cls).message(value)
