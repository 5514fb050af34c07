"""The keys that rules can have: they name something that is compared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from lucky_transport.errors import ConfigError, did_you_mean
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.names import is_pattern
from lucky_transport_migration.compare.rule import Rule

#: What comes before the key of a pair of metadata.
METADATA = "metadata."

#: The arrays of a step, or, before a dot, what they lie in; and "spec", whose fields stand behind the dot.
ARRAYS = ("observation", "observations", "reward", "rewards", "terminated", "truncated", "signals", "info", "spec")

_NUMBERS = ("f32", "f64", "i32", "u32", "u64", "bytes")


def check_key(key: str, rule: Rule, source: str) -> None:
    """Raise ConfigError for a key that names nothing, and for a tolerance of what is no number."""
    head, _, path = key.partition(".")
    if head == "spec" and not rule.skip:
        raise ConfigError(f"{source}: {key!r} has a tolerance", hint="a field of a spec is left out or equal; skip it")
    if is_pattern(key) or key.startswith(METADATA) or head in ARRAYS:
        return
    if head.islower() and key.count(".") > 1:  # a package: what its messages are is known where they are compared
        return
    message = _messages().get(head)
    if message is None:
        near = did_you_mean(head, [*_messages(), *ARRAYS]).rstrip()
        hint = near or "name a message ('JointState.positions') or an array of a step"
        raise ConfigError(f"{source}: {key!r} begins with no known name", hint=hint)
    field = _field_at(message, path, f"{source}: {key!r}")
    if rule.tolerant and field.kind not in _NUMBERS:
        raise ConfigError(f"{source}: {key!r} is of kind {field.kind}", hint="only numbers have a tolerance; drop it")


def _field_at(message: type | None, path: str, what: str) -> Field:
    name, _, rest = path.partition(".")
    fields = {} if message is None else {field.name: field for field in fields_of(message)}
    if name not in fields:
        owner = "a number or text" if message is None else message.__name__
        hint = did_you_mean(name, fields).rstrip() or "name a field"
        raise ConfigError(f"{what}: {owner} has no field {name!r}", hint=hint)
    return _field_at(fields[name].message, rest, what) if rest else fields[name]


@cache
def _messages() -> dict[str, type]:
    """Return every message class that an answer can hold, by name."""
    return {kind.__name__: kind for row in METHODS for kind in _within(row.response)}


def _within(message: type) -> Iterator[type]:
    yield message
    for field in fields_of(message):
        if field.message is not None:
            yield from _within(field.message)
