"""How a table of settings is read: key by key, each value by the reader of its key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lucky_transport.errors import ConfigError, did_you_mean

#: Per key: what returns a value as it counts, or raises, and what a right one looks like.
Readers = Mapping[str, tuple[Callable[[Any], Any], str]]


def read_table(values: Mapping[str, Any], source: str, readers: Readers) -> dict[str, Any]:
    """Return the values of a table as its readers read them; raises ConfigError naming source, key and remedy."""
    for key in values:
        if key not in readers:
            hint = f"{did_you_mean(key, readers)}known keys: {', '.join(readers)}"
            raise ConfigError(f"{source}: unknown key {key!r}", hint=hint)
    return {key: read_value(key, value, source, readers) for key, value in values.items()}


def only(is_right: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Return a reader that takes a right value as it is."""

    def read(value: Any) -> Any:
        if not is_right(value):
            raise ValueError
        return value

    return read


def number(is_right: Callable[[Any], bool], kinds: type | tuple[type, ...] = (int, float)) -> Callable[[Any], Any]:
    """Return a reader that takes a right finite number of those kinds as it is; true and false are no numbers."""

    def is_number(value: Any) -> bool:
        return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

    return only(lambda value: is_number(value) and is_right(value))


def read_value(key: str, value: Any, source: str, readers: Readers) -> Any:
    """Return one value as its reader reads it; raises ConfigError naming source, key and remedy."""
    reader, expected = readers[key]
    try:
        return reader(value)
    except ConfigError as error:  # its text names the fault
        raise ConfigError(f"{source}: {error}".removesuffix(f"; {error.hint}"), hint=error.hint) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(f"{source}: {key} = {value!r}", hint=f"expected {expected}") from None


def parse_rates(texts: Iterable[str]) -> dict[str, float]:
    """Return name -> rate of texts "NAME=RATE". Raises ConfigError."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, rate = text.rpartition("=")
        try:
            found[name] = float(rate)
        except ValueError:
            name = ""
        if not name:
            raise ConfigError(f"{text!r} is no limit of a stream", hint="write NAME=RATE, e.g. CameraService=10")
    return found
