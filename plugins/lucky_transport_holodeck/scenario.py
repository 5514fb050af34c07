"""A Holodeck scenario: which agents with which sensors a client puts into a world.

Rule 1: the file's form is the original's own, so the same file serves both clients.
Rule 2: what is missing or of a wrong kind is named with its place in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.errors import ConfigError, SpecError
from lucky_transport_holodeck.agent_types import AgentType, type_in_scenario
from lucky_transport_holodeck.sensor_types import SensorShape, is_task, sensor_shape

__all__ = ["AgentPlan", "Scenario", "SensorPlan", "load_scenario", "read_scenario"]

_Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class SensorPlan:
    """One sensor: `config` is its configuration, None for none; `shape` what its block holds."""

    name: str
    kind: str
    shape: SensorShape
    config: Mapping[str, Any] | None = None
    socket: str = ""
    location: _Triple = (0.0, 0.0, 0.0)
    rotation: _Triple = (0.0, 0.0, 0.0)

    @property
    def is_task(self) -> bool:
        """True when it shows reward and terminal."""
        return is_task(self.kind)


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """One agent, where it starts (metres; roll, pitch, yaw in degrees) and how it is acted on."""

    name: str
    kind: AgentType
    sensors: tuple[SensorPlan, ...]
    control_scheme: int = 0
    location: _Triple = (0.0, 0.0, 0.0)
    rotation: _Triple = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world's key and its agents; `main_agent` is "" where there is none. `window`: width and height in pixels."""

    world: str
    agents: tuple[AgentPlan, ...]
    main_agent: str = ""
    window: tuple[int, int] = (1280, 720)
    weather: Mapping[str, Any] = field(default_factory=dict[str, Any])


def load_scenario(path: Path) -> Scenario:
    """Return the scenario in a JSON file; raises ConfigError with the file and the place, SpecError for wrong kinds."""
    try:
        return read_scenario(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SpecError):
            raise
        raise ConfigError(
            f"scenario {path}: {type(error).__name__}: {error}",
            backend="holodeck",
            hint="it needs world, agents, and per agent agent_name, agent_type, sensors and control_scheme",
        ) from error


def read_scenario(plain: Mapping[str, Any]) -> Scenario:
    """Return the scenario that a file's JSON says; raises KeyError, TypeError, ValueError or SpecError."""
    return Scenario(
        str(plain.get("world", "")),
        tuple(_agent(each) for each in plain["agents"]),
        str(plain.get("main_agent", "")),
        (int(plain.get("window_width", 1280)), int(plain.get("window_height", 720))),
        dict(plain.get("weather", {})),
    )


def _agent(plain: Mapping[str, Any]) -> AgentPlan:
    kind = type_in_scenario(plain["agent_type"])
    return AgentPlan(
        str(plain.get("agent_name", plain["agent_type"])),
        kind,
        tuple(_sensor(kind, each) for each in plain["sensors"]),
        int(plain.get("control_scheme", 0)) % len(kind.schemes),
        _triple(plain.get("location")),
        _triple(plain.get("rotation")),
    )


def _sensor(agent: AgentType, plain: Mapping[str, Any]) -> SensorPlan:
    kind, config = plain["sensor_type"], plain.get("configuration")
    return SensorPlan(
        str(plain.get("sensor_name", kind)),
        kind,
        sensor_shape(kind, agent, config or {}),
        config,
        str(plain.get("socket", "")),
        _triple(plain.get("location")),
        _triple(plain.get("rotation")),
    )


def _triple(values: Any) -> _Triple:
    x, y, z = (0, 0, 0) if values is None else values
    return float(x), float(y), float(z)
