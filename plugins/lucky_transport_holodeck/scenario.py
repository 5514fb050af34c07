"""A scenario in Holodeck's or HoloOcean's own form: which agents with which sensors a client puts into a world."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError, SpecError
from lucky_transport.nesting import parse_json
from lucky_transport_holodeck.agent_types import AgentType, type_in_scenario
from lucky_transport_holodeck.dialect import TICKS_PER_CAPTURE, is_holoocean_scenario, launch_arguments
from lucky_transport_holodeck.sensor_types import (
    HEAVY,
    SensorShape,
    completed_config,
    default_config,
    is_task,
    sensor_shape,
)

_log = logging.getLogger("lucky_transport")

_Triple = tuple[float, float, float]
_ORIGIN: _Triple = (0.0, 0.0, 0.0)

#: The keys that have an effect, and those that only the original's installation reads.
_SCENARIO_KEYS = frozenset(
    (
        *("name", "world", "package_name", "main_agent", "agents", "window_width", "window_height"),
        *("ticks_per_sec", "frames_per_sec", "env_min", "env_max", "octree_min", "octree_max"),
    )
)
_AGENT_KEYS = frozenset(
    (
        *("agent_name", "agent_type", "sensors", "control_scheme", "existing"),
        *("location", "rotation", "location_randomization", "rotation_randomization"),
    )
)
_SENSOR_KEYS = frozenset(("sensor_type", "sensor_name", "configuration", "socket", "location", "rotation"))


@dataclass(frozen=True, slots=True)
class SensorPlan:
    """One sensor: `config` is its configuration, empty for none; `shape` what its block holds."""

    name: str
    kind: str
    shape: SensorShape
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    socket: str = ""
    location: _Triple = _ORIGIN
    rotation: _Triple = _ORIGIN

    @property
    def is_task(self) -> bool:
        """True when it shows reward and terminal."""
        return is_task(self.kind)


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One agent, where it starts (metres; roll, pitch, yaw in degrees) and how it is acted on.

    location_reach, rotation_reach: how far its start may be from there. exists: the world has it; it is not spawned.
    """

    name: str
    kind: AgentType
    sensors: tuple[SensorPlan, ...]
    control_scheme: int = 0
    location: _Triple = _ORIGIN
    rotation: _Triple = _ORIGIN
    location_reach: _Triple = _ORIGIN
    rotation_reach: _Triple = _ORIGIN
    exists: bool = False

    @property
    def is_random(self) -> bool:
        """True when its start differs from reset to reset."""
        return any(self.location_reach) or any(self.rotation_reach)

    def start(self, generator: random.Random) -> tuple[_Triple, _Triple]:
        """Draw the location and the rotation of a start: six uniform numbers, in the original's order."""
        location = _drawn(self.location, self.location_reach, generator)
        return location, _drawn(self.rotation, self.rotation_reach, generator)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world's key and its agents; `main_agent` is "" where there is none. `window`: width and height in pixels.
    ticks_per_second: of simulated time. launch: what an engine that is started is told beyond the usual.

    Raises SpecError when two agents have one name.
    """

    world: str
    agents: tuple[AgentPlan, ...]
    main_agent: str = ""
    window: tuple[int, int] = (1280, 720)
    ticks_per_second: int = 30
    launch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [agent.name for agent in self.agents]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(
                    f"{names.count(name)} agents are called {name!r}", backend="holodeck", hint="rename one"
                )


def load_scenario(path: Path, ticks_per_second: int | None = None) -> Scenario:
    """Return the scenario in a JSON file; raises ConfigError with the file and the place, SpecError for wrong kinds."""
    try:
        return read_scenario(parse_json(path.read_text(encoding="utf-8")), ticks_per_second)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SpecError):
            raise
        raise ConfigError(
            f"scenario {path}: {type(error).__name__}: {error}",
            backend="holodeck",
            hint="it needs world, agents, and per agent agent_name, agent_type, sensors and control_scheme",
        ) from error


def read_scenario(plain: Mapping[str, Any], ticks_per_second: int | None = None) -> Scenario:
    """Return the scenario of a file's JSON; raises KeyError, TypeError, ValueError or SpecError.

    ticks_per_second: instead of the scenario's own.
    """
    _warn_of_unknown(plain, _SCENARIO_KEYS, "scenario")
    ticks = ticks_per_second or int(plain.get("ticks_per_sec", 30))
    if ticks < 1:
        raise ValueError(f"ticks_per_sec is {ticks}: expected at least 1")
    ocean_ticks = ticks if is_holoocean_scenario(plain) else None
    agents = tuple(_agent(each, ocean_ticks) for each in plain["agents"])
    first = agents[0].name if agents and ocean_ticks else ""  # which HoloOcean takes where none is named
    return Scenario(
        str(plain.get("world", "")),
        agents,
        str(plain.get("main_agent", first)),
        (int(plain.get("window_width", 1280)), int(plain.get("window_height", 720))),
        ticks,
        launch_arguments(plain, ticks),
    )


def _warn_of_unknown(plain: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Log the keys that have no effect."""
    others = [key for key in plain if key not in known]
    if others:
        _log.warning("Holodeck %s: %s has no effect; known: %s", where, ", ".join(others), ", ".join(sorted(known)))


def _agent(plain: Mapping[str, Any], ocean_ticks: int | None) -> AgentPlan:
    """Return an agent; ocean_ticks: the ticks per second of a HoloOcean scenario, None for one of Holodeck's."""
    kind = type_in_scenario(plain["agent_type"])
    name = str(plain.get("agent_name", plain["agent_type"]))
    _warn_of_unknown(plain, _AGENT_KEYS, f"agent {name!r}")
    exists = plain.get("existing", False)
    if not isinstance(exists, bool):
        raise ValueError(f"existing is {exists!r}: expected true or false")
    roll, pitch, yaw = _triple(plain.get("rotation_randomization"))
    return AgentPlan(
        name,
        kind,
        tuple(_sensor(kind, each, ocean_ticks) for each in plain["sensors"]),
        int(plain.get("control_scheme", 0)) % len(kind.schemes),
        _triple(plain.get("location")),
        _triple(plain.get("rotation")),
        _triple(plain.get("location_randomization")),
        (roll, pitch, yaw if ocean_ticks else pitch),  # client 0.3.1 gives the yaw the second number's reach
        exists,
    )


def _sensor(agent: AgentType, plain: Mapping[str, Any], ocean_ticks: int | None) -> SensorPlan:
    kind, config = plain["sensor_type"], plain.get("configuration")
    name = str(plain.get("sensor_name", kind))
    harmless = frozenset() if plain.get("existing") else frozenset(("existing",))  # client 0.3.1 adds it either way
    if kind in HEAVY:
        harmless |= {"Hz"}
    _warn_of_unknown(plain, _SENSOR_KEYS | harmless, f"sensor {name!r}")
    if config is None:
        config = default_config(kind)
    if not isinstance(config, dict):
        raise ValueError(f"configuration of {name} is {config!r}: expected a JSON object")
    if ocean_ticks:
        config = _with_rate(name, kind, config, plain.get("Hz", ocean_ticks), ocean_ticks)
    return SensorPlan(
        name,
        kind,
        sensor_shape(kind, agent, config),
        config,
        str(plain.get("socket", "")),
        _triple(plain.get("location")),
        _triple(plain.get("rotation")),
    )


def _with_rate(name: str, kind: str, config: Mapping[str, Any], hz: float, ticks: int) -> dict[str, Any]:
    """Return the configuration as HoloOcean's client completes it for a sensor of that rate."""
    if not 0 < hz <= ticks:
        raise ValueError(f"Hz of {name} is {hz}: expected more than 0 and at most the {ticks} ticks per second")
    rate = {TICKS_PER_CAPTURE: int(ticks / hz)} if kind in HEAVY else {}
    return completed_config(kind, config) | rate


def _drawn(middle: _Triple, reach: _Triple, generator: random.Random) -> _Triple:
    x, y, z = (at + generator.uniform(-most, most) for at, most in zip(middle, reach, strict=True))
    return x, y, z


def _triple(values: Any) -> _Triple:
    x, y, z = (0, 0, 0) if values is None else values
    return float(x), float(y), float(z)
