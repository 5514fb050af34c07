"""Messages and plain data as JSON of the protocol: one word of ASCII, because readers split lines at blanks.

    CartPoleState(cart_position=0.5, ...)   <->   {"CartPosition":0.5,...}

Keys are the field names in CamelCase. What a peer sends is checked against the fields; unknown keys are ignored.
Init data may have several objects in one line, or one over several (`ObjectCollector`).
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from lucky_transport.messages.json_codec import JsonStyle
from lucky_transport.nesting import check_depth, parse_json


def _of_numpy(value: Any) -> Any:
    """Return NumPy's numbers and arrays as plain data; policies produce them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is {type(value).__name__}, which JSON does not know")


_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_of_numpy)

_BETWEEN = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()
#: A string, or what opens and closes objects; a string that has not ended reaches to the end of the text.
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)


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


class ObjectCollector:
    """Collects JSON objects from the lines it is fed; an object may have `longest` characters.

    Braces inside strings are text. After a ValueError it starts afresh.
    """

    def __init__(self, longest: int = 1 << 20) -> None:
        self._longest = longest
        self._rest = ""

    @property
    def is_open(self) -> bool:
        """True while an object has begun and not ended."""
        return bool(self._rest)

    def feed(self, line: str) -> list[dict[str, Any]]:
        """Return the objects that end in this line. Raises ValueError for text that is no sequence of objects."""
        text = f"{self._rest}\n{line}" if self._rest else line
        self._rest = ""
        found: list[dict[str, Any]] = []
        at = _skip_blanks(text, 0)
        while at < len(text):
            if text[at] != "{":
                raise ValueError(f"expected '{{' in front of {text[at : at + 20]!r}")
            try:
                value, end = _decoder.raw_decode(text, at)
            except RecursionError:
                raise ValueError("an object of too many levels") from None
            except ValueError:
                if _is_whole(text, at):
                    raise
                if len(text) - at > self._longest:
                    raise ValueError(f"an object of more than {self._longest} characters") from None
                self._rest = text[at:]
                break
            found.append(check_depth(value))
            at = _skip_blanks(text, end)
        return found


def _skip_blanks(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return at if match is None else match.end()


def _is_whole(text: str, at: int) -> bool:
    """True when the object that begins at `at` ends in this text, sound or not."""
    depth = 0
    for mark in _MARKS.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(mark.group(), 0)
        if not depth and mark.group() == "}":
            return True
    return False
