"""Methods by name and by pattern, as a person writes them.

    /hazel.rpc.SceneService/GetEntity      the full name
    SceneService/GetEntity                 the short name
    SceneService/*   */Get*   *            shell patterns of either

Of several patterns that fit the most exact one counts: a name before a pattern, then the longer text.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def is_pattern(text: str) -> bool:
    """True for a shell pattern."""
    return any(sign in text for sign in "*?[")


def short_name(name: str) -> str:
    """Return "Service/Method" of a full name."""
    service, _, rest = name.removeprefix("/").rpartition("/")
    return f"{service.rpartition('.')[2]}/{rest}" if service else rest


def matches(name: str, pattern: str) -> bool:
    """True when a method's full or short name fits `pattern`."""
    spelt = (name, name.removeprefix("/"), short_name(name))
    return any(fnmatchcase(one, pattern) for one in spelt)


def most_exact(name: str, patterns: Iterable[str]) -> str | None:
    """Return which of the patterns that fit `name` counts, the first of equals; None when none fits."""
    return max((one for one in patterns if matches(name, one)), key=_exactness, default=None)


def _exactness(pattern: str) -> tuple[bool, int]:
    return not is_pattern(pattern), sum(sign not in "*?[]" for sign in pattern)
