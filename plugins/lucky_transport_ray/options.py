"""What an endpoint of this plugin says.

ray:?engine=mujoco:quadruped&actors=4&num_envs=4096&seed=7            the cluster that Ray finds, or one of this host
ray://10.0.0.1:6379?engine=toy&options={"obs_size":8}                 that cluster
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, whole
from lucky_transport.errors import ConfigError
from lucky_transport.nesting import json_object

#: Where actors go: over as many nodes as there are, wherever there is room, or each on a node of its own.
PLACEMENTS = ("spread", "pack", "strict")
_LARGEST_SEED = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RayOptions:
    """address: of the cluster, "" = the one that Ray finds, else one of this host. engine: its name. actors: how many
    share the envs. num_envs: of all actors together. seed: env i has seed + i; None = the engine's own. options: of the
    engine's constructor. transport: between an actor and its engine. placement: one of `PLACEMENTS`. cpus: that each
    actor takes of its node. restarts: how often each actor may be replaced.
    """

    engine: str
    address: str = ""
    actors: int = 1
    num_envs: int = 1
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    transport: str = "shm"
    placement: str = "spread"
    cpus: float = 1.0
    restarts: int = 3


_OPTIONS = {
    "engine": EndpointOption(str, "an engine's name, e.g. toy"),
    "actors": EndpointOption(whole(1), "a number of actors, at least 1"),
    "num_envs": EndpointOption(whole(1), "a number of envs, at least 1"),
    "seed": EndpointOption(whole(most=_LARGEST_SEED), "a whole number, at least 0"),
    "options": EndpointOption(partial(json_object, field="options"), "a JSON object"),
    "transport": EndpointOption(str, "a transport's name, e.g. shm or inproc"),
    "placement": EndpointOption(one_of(*PLACEMENTS), f"one of {', '.join(PLACEMENTS)}"),
    "cpus": EndpointOption(number(1e6), "CPUs of each actor, at least 0"),
    "restarts": EndpointOption(whole(), "a number of restarts, at least 0"),
}


def ray_options(endpoint: Endpoint) -> RayOptions:
    """Return what the endpoint says; raises ConfigError."""
    values = {"address": endpoint.address, **read_options(endpoint, _OPTIONS, backend="ray")}
    if not values.get("engine"):
        raise ConfigError(
            f"endpoint {str(endpoint)!r} names no engine",
            backend="ray",
            hint="write ray:?engine=toy&actors=2&num_envs=8",
        )
    options = RayOptions(**values)
    if options.actors > options.num_envs:
        raise ConfigError(
            f"endpoint {str(endpoint)!r}: {options.actors} actors for {options.num_envs} envs",
            backend="ray",
            hint="an actor needs one env at least",
        )
    return options
