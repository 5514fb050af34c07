"""How exactly one field is compared, and the keys that rules can have.

Without a tolerance bits are compared: 0.0 and -0.0 differ, a NaN equals every NaN. Numbers are equal that any one of
`abs`, `rel` and `ulp` allows; NaN and infinity are close to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lucky_transport.errors import ConfigError, did_you_mean
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.names import is_pattern
from lucky_transport.table_readers import Readers, number, only, read_table


@dataclass(frozen=True, slots=True)
class Rule:
    """How one field is compared.

    abs, rel: largest distance, absolute and relative to the larger of both numbers. ulp: in representable numbers of
    the width on the wire. nan: whether a NaN is "equal" to a NaN or "different". skip: why it is not compared, "" = it
    is. presence: of a skipped field, whether there is one is compared. streams: the skip counts in streams only.
    """

    abs: float = 0.0
    rel: float = 0.0
    ulp: int = 0
    nan: str = "equal"
    skip: str = ""
    presence: bool = False
    streams: bool = False

    @property
    def tolerant(self) -> bool:
        """True when numbers may differ a little."""
        return bool(self.abs or self.rel or self.ulp)

    def skips(self, streamed: bool) -> bool:
        """True when it leaves the field out, in an item of a stream or elsewhere."""
        return bool(self.skip) and (streamed or not self.streams)


EXACT = Rule()


def read_rule(value: Any, source: str) -> Rule:
    """Return the rule that a row of the table says; raises ConfigError. source: what the error names."""
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{source} = {value!r}", hint="write a table, e.g. { abs = 1e-6 }")
    read_table(value, source, _READERS)
    if "skip" in value and len(value) > 1:
        others = ", ".join(key for key in value if key != "skip")
        raise ConfigError(f"{source}: skip beside {others}", hint="a field is left out or compared; drop one")
    return Rule(**value)


def _is_policy(value: Any) -> bool:
    return value in ("equal", "different")


def _is_reason(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_DISTANCE = number(lambda value: value >= 0)

_READERS: Readers = {
    "abs": (_DISTANCE, "a number >= 0, e.g. 1e-6"),
    "rel": (_DISTANCE, "a number >= 0, e.g. 1e-5"),
    "ulp": (number(lambda value: value >= 0, int), "a whole number >= 0, e.g. 4"),
    "nan": (only(_is_policy), "'equal' or 'different'"),
    "skip": (only(_is_reason), "the reason, e.g. 'the wall clock'"),
}


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
