"""What an endpoint of this plugin may say behind its `?`, read once for both ends.

    openra://127.0.0.1:9999?map=ridge&bots=easy&rate=25&planning=1         a server's
    openra://127.0.0.1:9999?service=bridge&sessions=8&seed=7               a client's

An option that the other end takes is passed over, one that neither takes is a ConfigError: so the URL that a server
tells can be given to a client as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError

__all__ = ["SERVICES", "ClientOptions", "ServerOptions", "client_options", "grpc_endpoint", "server_options"]

#: How a client goes about it; see `lucky_transport_openra.client`.
SERVICES = ("auto", "batch", "bridge")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """map_name, bots: of sessions that do not say ("" = the engine's own). rate_hz: ticks a second of a streamed
    session, 0 = as fast as it can, None = in real time. planning: a streamed session stands still until its first
    action. longest_s: how long a call without a deadline may take.
    """

    map_name: str = ""
    bots: str = ""
    rate_hz: float | None = None
    planning: bool = False
    longest_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """service: one of `SERVICES`. sessions: how many are the envs of the batch. map_name, bots: of each. seed: of the
    first, the others count on; 0 = the engine's choice. ticks: that one step takes, 0 = as the engine has it.
    """

    service: str = "auto"
    sessions: int = 1
    map_name: str = ""
    bots: str = ""
    seed: int = 0
    ticks: int = 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 31:
        raise ValueError
    return int(text)


def _switch(text: str) -> bool:
    return {"1": True, "0": False}[text]


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1e6:
        raise ValueError
    return value


def _service(text: str) -> str:
    if text not in SERVICES:
        raise ValueError
    return text


#: Option -> the field it sets, how it is read, what is expected.
_Row = tuple[str, Callable[[str], Any], str]
_BOTH: Mapping[str, _Row] = {"map": ("map_name", str, "a map"), "bots": ("bots", str, "an opponent")}
_SERVER: Mapping[str, _Row] = {
    **_BOTH,
    "rate": ("rate_hz", _rate, "ticks a second, 0 = as fast as it can"),
    "planning": ("planning", _switch, "1 or 0"),
}
_CLIENT: Mapping[str, _Row] = {
    **_BOTH,
    "service": ("service", _service, f"one of {', '.join(SERVICES)}"),
    "sessions": ("sessions", _count, "a number of sessions"),
    "seed": ("seed", _count, "a whole number >= 0"),
    "ticks": ("ticks", _count, "a number of ticks"),
}


def server_options(endpoint: Endpoint, longest_s: float) -> ServerOptions:
    """Return what the endpoint says to a server; raises ConfigError."""
    return ServerOptions(**_read(endpoint, _SERVER, _CLIENT), longest_s=longest_s)


def client_options(endpoint: Endpoint) -> ClientOptions:
    """Return what the endpoint says to a client; raises ConfigError."""
    options = ClientOptions(**_read(endpoint, _CLIENT, _SERVER))
    if options.sessions < 1:
        raise _malformed(endpoint, "sessions", "0", "at least 1")
    return options


def grpc_endpoint(endpoint: Endpoint) -> Endpoint:
    """Return the address as gRPC's plugin knows it."""
    return Endpoint("grpc", endpoint.address)


def _read(endpoint: Endpoint, own: Mapping[str, _Row], others: Mapping[str, _Row]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, text in endpoint.options:
        if key not in own:
            if key not in others:
                raise ConfigError(
                    f"endpoint {str(endpoint)!r}: unknown option {key!r}",
                    backend="openra",
                    hint=f"there are {', '.join(sorted({*own, *others}))}",
                )
            continue
        name, read, expected = own[key]
        try:
            values[name] = read(text)
        except (ValueError, KeyError):
            raise _malformed(endpoint, key, text, expected) from None
    return values


def _malformed(endpoint: Endpoint, key: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"endpoint {str(endpoint)!r}: {key}={text}", backend="openra", hint=f"expected {expected}")
