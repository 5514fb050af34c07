"""HoloOcean speaks Holodeck's protocol: names, blocks, turns and resets are the same. What is not is found out here.

Either client meets either engine, so nothing has to be chosen. A scenario or a command is HoloOcean's when something in
it is that Holodeck does not have: an agent, a sensor, a key or a command. That decides

    how an engine is started            `launch_arguments`
    what the yaw's randomization is     the scenario's third number, in Holodeck 0.3.1 the second
    how often a heavy sensor is shown   TicksPerCapture in its configuration
    how OrientationSensor lies          axes as columns, in Holodeck as rows
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport.config import environment
from lucky_transport_holodeck.agent_types import AGENT_TYPES
from lucky_transport_holodeck.commands import HOLOOCEAN_COMMANDS, HolodeckCommand
from lucky_transport_holodeck.sensor_types import HOLOOCEAN_SENSORS

#: The key of a heavy sensor's configuration that its client adds.
TICKS_PER_CAPTURE = "TicksPerCapture"
_SCENARIO_KEYS = frozenset(
    (
        *("ticks_per_sec", "frames_per_sec", "env_min", "env_max", "octree_min", "octree_max", "lcm_provider"),
        *("tide_cycle", "time_cycle", "flashlight", "current"),
    )
)
_SENSOR_KEYS = frozenset(("Hz", "lcm_channel", "ros_publish"))
_DRAWING_WITH_LIFETIME = 12
#: Metres of the smallest and the largest leaf of the tree in which HoloOcean's sonars find the world.
_OCTREE = {"Min": 0.02, "Max": 5.0}


def is_holoocean_scenario(plain: Mapping[str, Any]) -> bool:
    """Return True when the JSON of a scenario has something that only HoloOcean has."""
    sensors = [sensor for agent in plain["agents"] for sensor in agent["sensors"]]
    return (
        not _SCENARIO_KEYS.isdisjoint(plain)
        or any(_is_holoocean_agent(agent["agent_type"]) for agent in plain["agents"])
        or any(sensor["sensor_type"] in HOLOOCEAN_SENSORS or not _SENSOR_KEYS.isdisjoint(sensor) for sensor in sensors)
    )


def is_holoocean_command(command: HolodeckCommand) -> bool:
    """Return True when only HoloOcean's client sends such a command."""
    strings = (*command.strings, "", "", "", "")
    if command.kind == "SpawnAgent":
        return _is_holoocean_agent(strings[0])
    if command.kind == "AddSensor":
        return strings[2] in HOLOOCEAN_SENSORS or TICKS_PER_CAPTURE in strings[3]
    if command.kind == "DebugDraw":
        return len(command.numbers) == _DRAWING_WITH_LIFETIME
    return command.kind in HOLOOCEAN_COMMANDS


def _is_holoocean_agent(name: str) -> bool:
    kind = AGENT_TYPES.get(name)
    return kind is not None and kind.is_holoocean  # these have one name in scenarios and commands


def launch_arguments(plain: Mapping[str, Any], ticks_per_second: int) -> tuple[str, ...]:
    """Return what an engine is told on its command line beside what both are told; raises TypeError or ValueError."""
    if not is_holoocean_scenario(plain):
        return ("-opengl4",)
    frames = plain.get("frames_per_sec", True)
    if isinstance(frames, bool):
        frames = ticks_per_second if frames else 0
    corners = [
        f"-Env{end}{axis}={float(value)}"
        for end, key, ten in (("Min", "env_min", -10), ("Max", "env_max", 10))
        for axis, value in zip("XYZ", plain.get(key, [ten] * 3), strict=True)
    ]
    leaves = [f"-Octree{end}={float(plain.get(f'octree_{end.lower()}', size))}" for end, size in _OCTREE.items()]
    hidden = () if environment().get("DISPLAY") else ("-RenderOffScreen",)
    return (f"-FramesPerSec={int(frames)}", *corners, *leaves, *hidden)
