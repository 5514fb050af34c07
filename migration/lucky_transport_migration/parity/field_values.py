"""Values that fields of drawn requests often have: `[parity.values]` of lucky_transport.toml, and `parity --value`.

    [parity.values]
    "weather.v1.ForecastRequest.station" = ["Oslo", "nowhere"]    # a message's full name, and a field of it
    "weather.v1.Reading.sky" = ["RAIN", 7]                        # of an enum: a name or a number

What a certain text opens, such as a station that exists, is not reached by chance. Such a field gets one of its values
where another field has a case, and in most random requests. Of a list each item is meant. A wrong key or value is a
ConfigError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lucky_transport.config import load_table
from lucky_transport.errors import ConfigError, did_you_mean
from lucky_transport_migration.catalogue.descriptors import class_of
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.message_fields import is_repeated

_TABLE = "parity.values"
_EXAMPLE = 'e.g. "weather.v1.ForecastRequest.station" = ["Oslo", "Bern"]'


def read_pair(text: str) -> tuple[str, Any]:
    """Return the field and the value of "package.Message.field=VALUE"; what is no JSON is taken as text.

    Raises ConfigError for what has no "=".
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--value {text!r}", hint="write FIELD=VALUE, e.g. weather.v1.ForecastRequest.station=Oslo")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


class FieldValues:
    """Values by the full name of a field; `source` is what errors name."""

    def __init__(self, rows: Mapping[str, Any] | None = None, source: str = f"[{_TABLE}]") -> None:
        self._source = source
        self._rows = {key: self._listed(key, value) for key, value in (rows or {}).items()}
        self._checked: dict[str, Sequence[Any]] = {}

    @classmethod
    def load(cls, pairs: Iterable[str] = (), directory: Path | None = None) -> FieldValues:
        """Return those of the nearest lucky_transport.toml, and behind them those of `pairs`, as `read_pair` has them.

        Raises ConfigError.
        """
        table, source = load_table(_TABLE, directory)
        found = cls(table, source)
        for key, value in map(read_pair, pairs):
            found._rows.setdefault(key, []).extend(found._listed(key, value if isinstance(value, list) else [value]))
        return found

    def check(self, methods: Iterable[ServiceMethod]) -> None:
        """Make sure of each key that fits a package of the services' requests; others are of another service.

        Raises ConfigError for a message or field that is not there, and for a value that the field cannot have.
        """
        services = [row.descriptor.containing_service for row in methods if row.descriptor]
        messages = {one.full_name: one for it in services for m in it.methods for one in _within(m.input_type)}
        for key, values in self._rows.items():
            name, _, field_name = key.rpartition(".")
            if name.startswith("google.protobuf."):
                hint = "it is drawn within what protobuf allows; drop it"
                raise ConfigError(f"{self._source}: {key!r} is of a well-known message", hint=hint)
            if name in messages:
                self._checked[key] = self._fitting(key, messages[name], field_name, values)
            elif name.rpartition(".")[0] in {one.file.package for one in messages.values()}:
                hint = did_you_mean(name, messages).rstrip() or f"there are {', '.join(messages)}"
                raise ConfigError(f"{self._source}: {key!r}: no request has a message {name!r}", hint=hint)

    def named(self, field: str) -> Sequence[Any]:
        """Return the values of the field of that full name, once they were checked; none where none are named."""
        return self._checked.get(field, ())

    def _listed(self, key: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise ConfigError(f"{self._source}: {key!r} = {value!r}", hint=f"write a list of values, {_EXAMPLE}")
        if "." not in key.strip("."):
            raise ConfigError(f"{self._source}: {key!r} is no field", hint=f"name message and field, {_EXAMPLE}")
        return list(value)

    def _fitting(self, key: str, message: Any, field_name: str, values: list[Any]) -> list[Any]:
        """Return the values as the field takes them."""
        field = message.fields_by_name.get(field_name)
        if field is None:
            hint = did_you_mean(field_name, message.fields_by_name).rstrip()
            hint = hint or f"there are {', '.join(message.fields_by_name)}"
            raise ConfigError(f"{self._source}: {key!r}: {message.full_name} has no field {field_name!r}", hint=hint)
        if field.message_type is not None:
            raise ConfigError(f"{self._source}: {key!r} is a message or a map", hint="name a field of the message")
        return [self._one(key, message, field, value) for value in values]

    def _one(self, key: str, message: Any, field: Any, value: Any) -> Any:
        if field.type == field.TYPE_BYTES and isinstance(value, str):
            value = value.encode()
        try:
            if isinstance(value, bool) != (field.type == field.TYPE_BOOL):
                raise TypeError(f"{field.name} is {'' if field.type == field.TYPE_BOOL else 'no '}true or false")
            class_of(message)(**{field.name: [value] if is_repeated(field) else value})
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self._source}: {key!r} cannot be {value!r}: {error}", hint=_EXAMPLE) from error
        return value


def _within(message: Any, above: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield a message's descriptor and those of all that it can hold."""
    if message.full_name not in above:
        yield message
        for field in message.fields:
            if field.message_type is not None:
                yield from _within(field.message_type, (*above, message.full_name))
