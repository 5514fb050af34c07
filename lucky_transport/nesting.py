"""JSON and TOML of others, read: a text that is nested too deeply to be walked is malformed like any other.

`json_object` is the one reader of options, whatever carries them: the same text gives the same error everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, cast

from lucky_transport.errors import SpecError

#: Levels. A walk by recursion takes a few frames of Python's 1,000 for each; no real text is nested as deep.
_DEEPEST = 64
#: Characters of a refused text that the error shows.
_LONGEST_SHOWN = 200
_TOO_DEEP = f"nested deeper than {_DEEPEST} levels"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the value of a JSON text; options: those of `json.loads`. Raises ValueError."""
    text = text if isinstance(text, str) else text.decode()
    if text.count("[") + text.count("{") <= _DEEPEST:  # most are: nothing is walked then
        return json.loads(text, **options)
    return _parsed(json.loads, text, options)


def json_object(text: str, field: str) -> dict[str, Any]:
    """Return the JSON object in the field of that name, an empty one for "".

    Raises SpecError, with the field and the remedy, unless it is a JSON object of finite numbers.
    """
    shown = repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
    hint = 'send an object such as {"name": 1}, or nothing'
    try:
        value: Any = parse_json(text or "{}", parse_float=finite, parse_constant=finite)
    except ValueError as error:
        raise SpecError(f"{field} {shown} is no JSON: {error}", hint=hint) from error
    if not isinstance(value, dict):
        raise SpecError(f"{field} {shown} is no JSON object", hint=hint)
    return cast("dict[str, Any]", value)


def finite(text: str) -> float:
    """Return the number. Raises ValueError for NaN and Infinity, which Python's JSON reader would let pass."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no finite number")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text. Raises ValueError."""
    import tomllib  # most programs have no such file

    return _parsed(tomllib.loads, text, {})


def _parsed(loads: Callable[..., Any], text: str | bytes, options: dict[str, Any]) -> Any:
    try:
        return check_depth(loads(text, **options))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def check_depth(value: Any) -> Any:
    """Return parsed JSON or TOML as it is. Raises ValueError when it is nested too deeply."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
