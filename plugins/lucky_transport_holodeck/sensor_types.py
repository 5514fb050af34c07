"""The kinds of sensors that Holodeck has: what their blocks hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_transport.errors import SpecError
from lucky_transport_holodeck.agent_types import AgentType

__all__ = ["CAMERAS", "SensorShape", "default_config", "is_task", "sensor_shape", "wire_type"]

#: Kinds that show images, uint8 (height, width, 4).
CAMERAS = ("RGBCamera", "ViewportCapture")
_LARGEST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class SensorShape:
    """What a sensor's block holds."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


_Maker = Callable[[AgentType, Mapping[str, Any]], SensorShape]


def _fixed(dtype: str, *shape: int) -> _Maker:
    return lambda agent, config: SensorShape(dtype, shape)


def _image(height: int, width: int) -> _Maker:
    def make(agent: AgentType, config: Mapping[str, Any]) -> SensorShape:
        return SensorShape(
            "uint8", (int(config.get("CaptureHeight", height)), int(config.get("CaptureWidth", width)), 4)
        )

    return make


_KINDS: dict[str, _Maker] = {
    "LocationSensor": _fixed("float32", 3),
    "RotationSensor": _fixed("float32", 3),
    "VelocitySensor": _fixed("float32", 3),
    "OrientationSensor": _fixed("float32", 3, 3),
    "IMUSensor": _fixed("float32", 2, 3),
    "CollisionSensor": _fixed("bool", 1),
    "RangeFinderSensor": lambda agent, config: SensorShape("float32", (int(config.get("LaserCount", 1)),)),
    "RGBCamera": _image(256, 256),
    "ViewportCapture": _image(720, 1280),
    "JointRotationSensor": lambda agent, config: SensorShape("float32", (agent.joints,)),
    "PressureSensor": lambda agent, config: SensorShape("float32", (agent.touched * 4,)),
    "RelativeSkeletalPositionSensor": lambda agent, config: SensorShape("float32", (agent.bones, 4)),
    "WorldNumSensor": _fixed("float32", 1),
    "BallLocationSensor": _fixed("int8", 1),
    "AbuseSensor": _fixed("int8", 1),
    **dict.fromkeys(
        ("DistanceTask", "LocationTask", "FollowTask", "AvoidTask", "CupGameTask", "CleanUpTask"), _fixed("float32", 2)
    ),
}


def wire_type(sensor_type: str) -> str:
    """Return what a scenario's sensor type is called in commands."""
    return "WorldNumSensor" if sensor_type == "BallLocationSensor" else sensor_type


def default_config(sensor_type: str) -> dict[str, Any]:
    """Return the configuration of a sensor for which a scenario has none."""
    return {"Key": "BallLocation"} if sensor_type == "BallLocationSensor" else {}


def is_task(sensor_type: str) -> bool:
    """True for a sensor that shows a reward and whether the episode has ended."""
    return sensor_type.endswith("Task")


def sensor_shape(sensor_type: str, agent: AgentType, config: Mapping[str, Any]) -> SensorShape:
    """Return what the sensor's block holds.

    Raises SpecError for an unknown kind, one that this agent cannot have, and a configuration that gives no size.
    """
    maker = _KINDS.get(sensor_type)
    if maker is None:
        raise SpecError(
            f"Holodeck has no sensor type {sensor_type!r}", backend="holodeck", hint=f"known: {', '.join(_KINDS)}"
        )
    try:
        shape = maker(agent, config)
    except (TypeError, ValueError) as error:
        raise SpecError(f"configuration of {sensor_type}: {error}", backend="holodeck") from error
    if min(shape.shape) < 1 or shape.nbytes > _LARGEST_BYTES:
        raise SpecError(
            f"a {sensor_type} of {agent.scenario_name} with {dict(config)} would be {shape.dtype} {shape.shape}",
            backend="holodeck",
        )
    return shape
