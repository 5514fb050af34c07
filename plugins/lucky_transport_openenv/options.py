"""What an endpoint of this plugin may say behind its `?`.

openenv://127.0.0.1:8000?capacity=8&map=ridge&rate=25&tools=read
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, whole

#: Which typed methods agents get as tools.
TOOLS = ("all", "read", "none")
_MOST = (1 << 20) - 1


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """capacity: how many episodes there may be at once; None = the engine's own limit. map_name: of episodes that do
    not say ("" = the first). rate_hz: ticks a second of worlds that run by themselves, 0 = as fast as they can, None =
    a world advances with each step only. ticks: that one step takes. idle_s: after which an episode without a call
    ends. tools: one of `TOOLS`. max_bytes: of a request or a message of
    a WebSocket. longest_s: how long a call may take.
    """

    capacity: int | None = None
    map_name: str = ""
    rate_hz: float | None = None
    ticks: int = 1
    idle_s: float = 600.0
    tools: str = "all"
    max_bytes: int = 16 << 20
    longest_s: float = 60.0


_OPTIONS = {
    "capacity": EndpointOption(whole(1, _MOST), "episodes at once, at least 1"),
    "map": EndpointOption(str, "a map", "map_name"),
    "rate": EndpointOption(number(1e6), "ticks a second, 0 for as fast as it can", "rate_hz"),
    "ticks": EndpointOption(whole(1, _MOST), "ticks of one step, at least 1"),
    "idle": EndpointOption(number(sys.float_info.max, positive=True), "seconds", "idle_s"),
    "tools": EndpointOption(one_of(*TOOLS), f"one of {', '.join(TOOLS)}"),
    "max_bytes": EndpointOption(whole(1), "bytes, at least 1"),
}


def server_options(endpoint: Endpoint, longest_s: float) -> ServerOptions:
    """Return what the endpoint says; raises ConfigError for an unknown option or a malformed value."""
    return ServerOptions(**read_options(endpoint, _OPTIONS, backend="openenv"), longest_s=longest_s)
