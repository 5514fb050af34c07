"""What an endpoint of this plugin may say behind its `?`, read once for both ends.

    openra://127.0.0.1:9999?map=ridge&bots=easy&rate=25&planning=1         a server's
    openra://127.0.0.1:9999?service=bridge&sessions=8&seed=7               a client's

An option that the other end takes is passed over, one that neither takes is a ConfigError: so the URL that a server
tells can be given to a client as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, switch, whole

#: How a client goes about it; see `lucky_transport_openra.client`.
SERVICES = ("batch", "bridge")


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

    service: str = "batch"
    sessions: int = 1
    map_name: str = ""
    bots: str = ""
    seed: int = 0
    ticks: int = 0


_BOTH = {"map": EndpointOption(str, "a map", "map_name"), "bots": EndpointOption(str, "an opponent")}
_SERVER = {
    "map": EndpointOption(lambda text: text.removesuffix(".oramap"), "a map", "map_name"),
    "bots": _BOTH["bots"],
    "rate": EndpointOption(number(1e6), "ticks a second, 0 = as fast as it can", "rate_hz"),
    "planning": EndpointOption(switch, "1 or 0"),
}
_CLIENT = {
    **_BOTH,
    "service": EndpointOption(one_of(*SERVICES), f"one of {', '.join(SERVICES)}"),
    "sessions": EndpointOption(whole(1), "a number of sessions, at least 1"),
    "seed": EndpointOption(whole(), "a whole number >= 0"),
    "ticks": EndpointOption(whole(), "a number of ticks"),
}


def server_options(endpoint: Endpoint, longest_s: float) -> ServerOptions:
    """Return what the endpoint says to a server; raises ConfigError."""
    return ServerOptions(**read_options(endpoint, _SERVER, backend="openra", others=_CLIENT), longest_s=longest_s)


def client_options(endpoint: Endpoint) -> ClientOptions:
    """Return what the endpoint says to a client; raises ConfigError."""
    return ClientOptions(**read_options(endpoint, _CLIENT, backend="openra", others=_SERVER))


def grpc_endpoint(endpoint: Endpoint) -> Endpoint:
    """Return the address as gRPC's plugin knows it."""
    return Endpoint("grpc", endpoint.address)
