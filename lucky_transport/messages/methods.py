"""The table of methods: one row per method that can be called on every transport, generated from proto/."""

from __future__ import annotations

from difflib import get_close_matches

from lucky_transport.errors import UnknownName
from lucky_transport.messages._generated.methods import METHODS
from lucky_transport.messages.method import Effect, Flow, Method, Runs

__all__ = ["BY_ID", "BY_NAME", "METHODS", "Effect", "Flow", "Method", "Runs", "method"]

BY_NAME: dict[str, Method] = {row.name: row for row in METHODS}
BY_ID: dict[int, Method] = {row.id: row for row in METHODS}
assert len(BY_NAME) == len(BY_ID) == len(METHODS)


def method(name: str) -> Method:
    """Return the method of that full name, "/package.Service/Method" or "Service/Method".

    Raises UnknownName, with the nearest names.
    """
    found = BY_NAME.get(name)
    if found is None:
        found = next((row for row in METHODS if row.name.rpartition(".")[2] == name), None)
    if found is None:
        raise UnknownName(f"no method {name!r}", hint=_nearest(name))
    return found


def _nearest(name: str) -> str:
    """Return a hint: methods of nearly that name, or of that name in another service; else the services."""
    wanted = name.rpartition("/")[2]
    alike = {row.name for row in METHODS if row.short_name.lower() == wanted.lower()}
    near = alike or set(get_close_matches(name, BY_NAME, n=2, cutoff=0.8))
    if not near:
        shorts = get_close_matches(wanted, {row.short_name for row in METHODS}, n=2, cutoff=0.75)
        near = {row.name for row in METHODS if row.short_name in shorts}
    if near:
        return f"did you mean {' or '.join(sorted(near))}?"
    return f"the services are {', '.join(dict.fromkeys(row.service for row in METHODS))}"
