"""How exactly which field is compared: `[parity.fields]` of lucky_transport.toml, over the project's own table.

    [parity.fields]
    "GetJointStateResponse.state.positions" = { abs = 1e-6 }      # a path from the response message
    "JointState.velocities" = { rel = 1e-5, ulp = 4 }             # a field of a message, wherever that stands
    "observation" = { nan = "different" }                         # an array of a step
    "metadata.x-request-id" = { skip = "each call has its own" }  # headers and trailing metadata
    "Transform.*" = { abs = 1e-9 }                                # a shell pattern
    "weather.v1.Forecast.issued_ns" = { skip = "a clock" }        # of a service of your own: its message's full name

The most exact key counts: a path before a message's field, both before patterns, a longer pattern first. A field that
is skipped has a reason, and who reports says both. Without a tolerance bits are compared: 0.0 and -0.0 differ, a NaN
equals every NaN. Numbers are equal that any one of `abs`, `rel` and `ulp` allows; NaN and infinity are close to
nothing. A wrong key or value is a ConfigError that names source, key, value and remedy: a rule that never applies would
be taken for one that does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from lucky_transport.config import load_table
from lucky_transport.errors import ConfigError, did_you_mean
from lucky_transport.messages.fields import Field
from lucky_transport.messages.method import is_pattern
from lucky_transport.messages.methods import METHODS
from lucky_transport.table_readers import Readers, number, only, read_table
from lucky_transport_migration.compare.message_fields import fields_of, name_of


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


_DISTANCE = number(lambda value: value >= 0)

_READERS: Readers = {
    "abs": (_DISTANCE, "a number >= 0, e.g. 1e-6"),
    "rel": (_DISTANCE, "a number >= 0, e.g. 1e-5"),
    "ulp": (number(lambda value: value >= 0, int), "a whole number >= 0, e.g. 4"),
    "nan": (only(lambda value: value in ("equal", "different")), "'equal' or 'different'"),
    "skip": (only(lambda value: isinstance(value, str) and bool(value.strip())), "the reason, e.g. 'the wall clock'"),
}


#: What comes before the key of a pair of metadata.
METADATA = "metadata."

#: The arrays of a step, or, before a dot, what they lie in; and "spec", whose fields stand behind the dot.
ARRAYS = ("observation", "observations", "reward", "rewards", "terminated", "truncated", "signals", "info", "spec")

_NUMBERS = ("f32", "f64", "i32", "u32", "u64", "bytes")


def check_key(key: str, rule: Rule, source: str) -> None:
    """Raise ConfigError for a key that names nothing, and for a tolerance of what is no number."""
    head, _, path = key.partition(".")
    if head in ("spec", "metadata") and not rule.skip:
        raise ConfigError(f"{source}: {key!r} has a tolerance", hint=f"{head} is left out or equal; skip it")
    # a package's messages are known where they are compared
    if is_pattern(key) or key.startswith(METADATA) or head in ARRAYS or (head.islower() and key.count(".") > 1):
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


_CLOCK = Rule(skip="the wall clock at that moment; compared is whether there is one", presence=True)

#: What a clock put into a message differs from call to call.
BUILT_IN: Mapping[str, Rule] = {
    "AgentFrame.timestamp_ms": _CLOCK,
    "ImageFrame.timestamp_ms": _CLOCK,
    "TelemetryFrame.timestamp_ms": _CLOCK,
    "StepResponse.physics_step_duration_us": Rule(skip="microseconds that the engine took"),
    "ImageFrame.frame_number": Rule(
        skip="counts ticks of the wall clock, of which a busy engine leaves out some; parity looks whether it grows",
        streams=True,
    ),
}


#: What is left out of typed calls alone.
METADATA_OF_CALLS = "metadata of calls"

#: What no comparison of calls looks at, with the reasons.
UNSEEN: Mapping[str, str] = {
    "bits of a NaN in a message": "a NaN equals every NaN",
    METADATA_OF_CALLS: "a typed call shows none; `lucky-transport run --transport staged` compares it",
    "whether a call was made once": "no answer tells where an engine is in the same state after it was made twice",
    "calls beside a stream or another call, and those that `begin` makes": "typed calls are made one by one",
    "latency": "not a matter of parity; see `lucky-transport bench`",
}


class ComparisonRules:
    """The rules in force: `rows` over the built-in ones. Safe to use from any thread.

    doubts_nan: whether a rule says that no NaN equals another; equal bytes can then be different answers.
    """

    def __init__(self, rows: Mapping[str, Rule] | None = None) -> None:
        self.rows: dict[str, Rule] = {**BUILT_IN, **(rows or {})}
        self.doubts_nan = any(row.nan == "different" for row in self.rows.values())
        self._patterns = sorted(filter(is_pattern, self.rows), key=len, reverse=True)
        self._found: dict[tuple[str, str], tuple[str, Rule]] = {}
        self._skipped: dict[tuple[type, bool], tuple[str, ...]] = {}
        self._fields: dict[tuple[type, str], tuple[tuple[Field, str, Rule], ...]] = {}

    @classmethod
    def load(cls, directory: Path | None = None) -> ComparisonRules:
        """Return the rules of the nearest lucky_transport.toml; raises ConfigError for a wrong one."""
        table, source = load_table("parity.fields", directory)
        rows: dict[str, Rule] = {}
        for key, value in table.items():
            rows[key] = read_rule(value, f"{source} {key!r}")
            check_key(key, rows[key], source)
        return cls(rows)

    @property
    def declared(self) -> list[str]:
        """The rules of [parity.fields], each as its key and what it says."""
        found = {key: asdict(row) for key, row in self.rows.items() if BUILT_IN.get(key) != row}
        usual = asdict(EXACT)
        return [
            f"{key} {', '.join(f'{name} {json.dumps(one)}' for name, one in row.items() if one != usual[name])}"
            for key, row in found.items()
        ]

    def rule(self, place: str, own: str = "") -> Rule:
        """Return the rule of a place: "observation", "metadata.<key>", or a path from a message, whose last field has
        the name `own` in its own message.
        """
        return self.find(place, own)[1]

    def fields(self, message: type, place: str) -> tuple[tuple[Field, str, Rule], ...]:
        """Return the fields of a message that stands at `place`, each with its own place and its rule."""
        rows = self._fields.get((message, place))
        if rows is None:
            named = ((field, f"{place}.{field.name}") for field in fields_of(message))
            rows = tuple((field, inner, self.rule(inner, f"{name_of(message)}.{field.name}")) for field, inner in named)
            self._fields[message, place] = rows
        return rows

    def left_out(self, message: type, *, streamed: bool = False) -> tuple[str, ...]:
        """Return the keys of the rules that leave out fields of such a message, in the order of its fields."""
        if (message, streamed) not in self._skipped:
            keys = self._left_out(message, name_of(message), streamed, ())
            self._skipped[message, streamed] = tuple(dict.fromkeys(keys))
        return self._skipped[message, streamed]

    def skipped(self) -> dict[str, str]:
        """Return everything that is left out, with the reasons; "... of streams" where it is in streams only."""
        return {f"{key}{' of streams' * row.streams}": row.skip for key, row in self.rows.items() if row.skip}

    def arrays_left_out(self) -> dict[str, str]:
        """Return the arrays of a step, and the fields of a spec, that are left out, with the reasons."""
        return {key: row.skip for key, row in self.rows.items() if row.skip and key.partition(".")[0] in ARRAYS}

    def find(self, place: str, own: str = "") -> tuple[str, Rule]:
        """Return the key that counts at a place, and its rule; "" and EXACT where none does."""
        found = self._found.get((place, own))
        if found is None:
            names = (place, own)
            exact = (name for name in names if name in self.rows)
            matching = (row for row in self._patterns if any(fnmatchcase(name, row) for name in names))
            key = next(exact, None) or next(matching, "")
            found = self._found[place, own] = (key, self.rows.get(key, EXACT))
        return found

    def _left_out(self, message: type, place: str, streamed: bool, above: tuple[type, ...]) -> Iterator[str]:
        for field, inner, rule in self.fields(message, place):
            if rule.skips(streamed):
                yield self.find(inner, f"{name_of(message)}.{field.name}")[0]
            elif field.message is not None and field.message not in above:
                yield from self._left_out(field.message, inner, streamed, (*above, message))
