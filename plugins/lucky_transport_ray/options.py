"""What an endpoint of this plugin says.

ray:?engine=mujoco:quadruped&actors=4&num_envs=4096&seed=7            the cluster that Ray finds, or one of this host
ray://10.0.0.1:6379?engine=toy&options={"obs_size":8}                 that cluster
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, did_you_mean

__all__ = ["PLACEMENTS", "RayOptions", "ray_options"]

#: Where actors go: over as many nodes as there are, wherever there is room, or each on a node of its own.
PLACEMENTS = ("spread", "pack", "strict")


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


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise ValueError
    return int(text)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError
    return int(text)


def _cpus(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e6:
        raise ValueError
    return number


def _placement(text: str) -> str:
    if text not in PLACEMENTS:
        raise ValueError
    return text


def _object(text: str) -> Mapping[str, Any]:
    value: Any = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return cast("dict[str, Any]", value)


#: Option -> how it is read, what is expected.
_OPTIONS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "engine": (str, "an engine's name, e.g. toy"),
    "actors": (_count, "a number of actors, at least 1"),
    "num_envs": (_count, "a number of envs, at least 1"),
    "seed": (_whole, "a whole number, at least 0"),
    "options": (_object, "a JSON object"),
    "transport": (str, "a transport's name, e.g. shm or inproc"),
    "placement": (_placement, f"one of {', '.join(PLACEMENTS)}"),
    "cpus": (_cpus, "CPUs of each actor, at least 0"),
    "restarts": (_whole, "a number of restarts, at least 0"),
}


def ray_options(endpoint: Endpoint) -> RayOptions:
    """Return what the endpoint says; raises ConfigError."""
    values: dict[str, Any] = {"address": endpoint.address}
    for key, text in endpoint.options:
        if key not in _OPTIONS:
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: unknown option {key!r}",
                backend="ray",
                hint=f"{did_you_mean(key, _OPTIONS)}there are {', '.join(_OPTIONS)}",
            )
        read, expected = _OPTIONS[key]
        try:
            values[key] = read(text)
        except ValueError:
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: {key}={text}", backend="ray", hint=f"expected {expected}"
            ) from None
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
