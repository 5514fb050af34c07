"""Methods by name and by pattern, as a person writes them.

    /hazel.rpc.SceneService/GetEntity      the full name
    SceneService/GetEntity                 the short name
    SceneService/*   */Get*   *            shell patterns of either

Of several patterns that fit the most exact one counts: a name before a pattern, then the longer text. A method need not
be in the table of methods: a team's own services have stages too.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from lucky_transport.errors import UnknownName
from lucky_transport.messages.methods import BY_NAME, METHODS, method
from lucky_transport_migration.compare.rule_keys import is_pattern

__all__ = ["covers", "full_name", "known_methods", "matches", "most_exact", "short_name"]


def short_name(name: str) -> str:
    """Return "Service/Method" of a full name."""
    service, _, rest = name.removeprefix("/").rpartition("/")
    return f"{service.rpartition('.')[2]}/{rest}" if service else rest


def matches(name: str, pattern: str) -> bool:
    """True when a method's full or short name fits `pattern`."""
    spelt = (name, name.removeprefix("/"), short_name(name))
    return any(fnmatchcase(one, pattern) for one in spelt)


def covers(pattern: str, other: str) -> bool:
    """True when `other`, a name or pattern too, says nothing about methods that `pattern` does not fit.

    Decided by the methods of the table, and for patterns of unknown methods by their text.
    """
    inner = {row.name for row in METHODS if matches(row.name, other)}
    return all(matches(name, pattern) for name in inner) if inner else matches(other, pattern)


def most_exact(name: str, patterns: Iterable[str]) -> str | None:
    """Return which of the patterns that fit `name` counts, the first of equals; None when none fits."""
    return max((one for one in patterns if matches(name, one)), key=_exactness, default=None)


def _exactness(pattern: str) -> tuple[bool, int]:
    return not is_pattern(pattern), sum(sign not in "*?[]" for sign in pattern)


def full_name(text: str) -> str:
    """Return the full name of a method that is spelt in full or short; a full name need not be in the table.

    Raises UnknownName for a short name that is not in the table, and for an unknown method of a service that is.
    """
    services = {row.service for row in METHODS}
    spelt = text if text.startswith("/") or "." not in text.partition("/")[0] else f"/{text}"
    is_foreign = spelt.startswith("/") and spelt.count("/") == 2 and spelt[1:].partition("/")[0] not in services
    return spelt if spelt in BY_NAME or is_foreign else method(spelt).name


def known_methods(text: str) -> list[str]:
    """Return the full names of the methods that a name or pattern stands for, in the table's order.

    Raises UnknownName when there is none, for a name as `full_name`.
    """
    if not is_pattern(text):
        return [full_name(text)]
    names = [row.name for row in METHODS if matches(row.name, text)]
    if not names:
        raise UnknownName(f"no method fits {text!r}", hint="write for instance 'SceneService/*' or '*Camera*'")
    return names
