"""Options of an endpoint, which stand behind its `?`: a plugin lists what it takes, and reads them by that list.

OPTIONS = {
"actors": EndpointOption(whole(1), "a number of actors, at least 1"),
"map": EndpointOption(str, "a map", field="map_name"),
}
values = read_options(Endpoint.parse("ray:?actors=2"), OPTIONS, backend="ray")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, did_you_mean

_LARGEST = (1 << 31) - 1


class EndpointOption(NamedTuple):
    """One option. read: returns a text's value or raises ValueError. expected: what an error asks for.

    field: the name of the value, where it is not the option's own.
    """

    read: Callable[[str], Any]
    expected: str
    field: str = ""


def read_options(
    endpoint: Endpoint, options: Mapping[str, EndpointOption], *, backend: str, others: Collection[str] = ()
) -> dict[str, Any]:
    """Return the values of the endpoint's options by their fields. others: options that are for the other end.

    Raises ConfigError for an unknown option and for a value that cannot be read.
    """
    values: dict[str, Any] = {}
    for key, text in endpoint.options:
        option = options.get(key)
        if option is not None:
            try:
                values[option.field or key] = option.read(text)
            except ValueError:
                raise ConfigError(
                    f"endpoint {str(endpoint)!r}: {key}={text}", backend=backend, hint=f"expected {option.expected}"
                ) from None
        elif key not in others:
            known = sorted({*options, *others})
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: unknown option {key!r}",
                backend=backend,
                hint=f"{did_you_mean(key, known)}there are {', '.join(known)}",
            )
    return values


def whole(least: int = 0, most: int = _LARGEST) -> Callable[[str], int]:
    """Return what reads a whole number in decimal digits, from `least` to `most`."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return read


def number(most: float, *, positive: bool = False) -> Callable[[str], float]:
    """Return what reads a number from 0, or above it where it has to be `positive`, to `most`."""

    def read(text: str) -> float:
        value = float(text)
        if not 0 <= value <= most or (positive and not value):
            raise ValueError(text)
        return value

    return read


def one_of(*names: str) -> Callable[[str], str]:
    """Return what reads one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return read


def switch(text: str) -> bool:
    """Read 1 or 0."""
    return one_of("0", "1")(text) == "1"
