"""JSON and TOML of others, read: a text that is nested too deeply to be walked is malformed like any other."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from typing import Any, cast

__all__ = ["check_depth", "parse_json", "parse_toml"]

#: Levels. A walk by recursion takes a few frames of Python's 1,000 for each; no real text is nested as deep.
_DEEPEST = 64
_TOO_DEEP = f"nested deeper than {_DEEPEST} levels"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return the value of a JSON text; options: those of `json.loads`. Raises ValueError."""
    text = text if isinstance(text, str) else text.decode()
    if text.count("[") + text.count("{") <= _DEEPEST:  # most are: nothing is walked then
        return json.loads(text, **options)
    return _parsed(json.loads, text, options)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text. Raises ValueError."""
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
