"""What an endpoint of this plugin may say behind its `?`.

openenv://127.0.0.1:8000?capacity=8&map=ridge&rate=25&tools=read
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, did_you_mean

__all__ = ["TOOLS", "ServerOptions", "server_options"]

#: Which typed methods agents get as tools.
TOOLS = ("all", "read", "none")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """capacity: how many episodes there may be at once; None = the engine's own limit. map_name: of episodes that do
    not say ("" = the first). rate_hz: ticks a second of worlds that run by themselves, 0 = as fast as they can, None =
    a world advances with each step only. ticks: that one step takes. idle_s: after which an episode without a call
    ends. tools: one of `TOOLS`. longest_s: how long a call may take.
    """

    capacity: int | None = None
    map_name: str = ""
    rate_hz: float | None = None
    ticks: int = 1
    idle_s: float = 600.0
    tools: str = "all"
    longest_s: float = 60.0


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 1 << 20:
        raise ValueError
    return int(text)


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1e6:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _tools(text: str) -> str:
    if text not in TOOLS:
        raise ValueError
    return text


#: Option -> the field it sets, how it is read, what is expected.
_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "capacity": ("capacity", _count, "episodes at once, at least 1"),
    "map": ("map_name", str, "a map"),
    "rate": ("rate_hz", _rate, "ticks a second, 0 for as fast as it can"),
    "ticks": ("ticks", _count, "ticks of one step, at least 1"),
    "idle": ("idle_s", _seconds, "seconds"),
    "tools": ("tools", _tools, f"one of {', '.join(TOOLS)}"),
}


def server_options(endpoint: Endpoint, longest_s: float) -> ServerOptions:
    """Return what the endpoint says; raises ConfigError for an unknown option or a malformed value."""
    values: dict[str, Any] = {}
    for key, text in endpoint.options:
        if key not in _OPTIONS:
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: unknown option {key!r}",
                backend="openenv",
                hint=f"{did_you_mean(key, _OPTIONS)}there are {', '.join(_OPTIONS)}",
            )
        name, read, expected = _OPTIONS[key]
        try:
            values[name] = read(text)
        except ValueError:
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: {key}={text}", backend="openenv", hint=f"expected {expected}"
            ) from None
    return ServerOptions(**values, longest_s=longest_s)
