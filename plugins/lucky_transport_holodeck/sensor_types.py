"""The kinds of sensors that Holodeck and HoloOcean have: what their blocks hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_transport.errors import SpecError
from lucky_transport_holodeck.agent_types import AgentType

#: Kinds that show what a camera sees, uint8 (height, width, 4).
CAMERAS = ("RGBCamera", "ViewportCapture", "CameraSensor")
#: Kinds that HoloOcean's engine computes only every TicksPerCapture ticks.
HEAVY = (
    *("ImagingSonar", "ProfilingSonar", "SidescanSonar", "SinglebeamSonar"),
    *("RGBCamera", "RaycastLidar", "RaycastSemanticLidar"),
)
#: Kinds whose client takes NaN for nothing, and zeros for a place or a message.
SILENT_AS_NAN = ("GPSSensor", "AcousticBeaconSensor")
_LARGEST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class SensorShape:
    """What a sensor's block holds. point_size: numbers of a point of a lidar, whose block begins with the count of its
    points in a row of that size; 0 for any other sensor.
    """

    dtype: str
    shape: tuple[int, ...]
    point_size: int = 0

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


def _either(value: str, otherwise: tuple[int, ...], chosen: tuple[int, ...]) -> _Maker:
    """Return the maker of a sensor that has shape `chosen` unless its configuration sets the bool `value` otherwise."""
    return lambda agent, config: SensorShape("float32", chosen if config.get(value, True) else otherwise)


@dataclass(frozen=True, slots=True)
class _Bins:
    """The bins of a sonar along one of its axes: `bins` of them, or as many of `resolution` as fit.

    `least`, `most`: the keys of its ends with their defaults.
    """

    axis: str
    bins: int
    least: tuple[str, float]
    most: tuple[str, float]
    resolution: float = 0.0

    def count(self, config: Mapping[str, Any]) -> int:
        bins, resolution = f"{self.axis}Bins", f"{self.axis}Res"
        if bins in config and resolution in config:
            raise ValueError(f"it has both {bins} and {resolution}; leave one out")
        step = config.get(resolution, self.resolution)
        if bins in config or not step:
            return int(config.get(bins, self.bins))
        return int((config.get(*self.most) - config.get(*self.least)) // step)


def _sonar(*axes: _Bins) -> _Maker:
    return lambda agent, config: SensorShape("float32", tuple(each.count(config) for each in axes))


def _range(bins: int, least: float, most: float, resolution: float = 0.0) -> _Bins:
    return _Bins("Range", bins, ("RangeMin", least), ("RangeMax", most), resolution)


def _azimuth(bins: int) -> _Bins:
    return _Bins("Azimuth", bins, ("", 0.0), ("Azimuth", 120.0))


def _lidar(point_size: int) -> _Maker:
    """Return the maker of a lidar, whose points are those of one and a half turns.

    HoloOcean's engine makes the block as many numbers long as there are points in a second, and cuts a larger one.
    """

    def make(agent: AgentType, config: Mapping[str, Any]) -> SensorShape:
        per_second, frequency = config.get("PointsPerSecond"), config.get("RotationFrequency")
        points = per_second / frequency if per_second and frequency else 5600.0
        return SensorShape("float32", (min(int(1.5 * point_size * points), int(per_second or 56000)),), point_size)

    return make


_HOLOOCEAN_KINDS: dict[str, _Maker] = {
    "PoseSensor": _fixed("float32", 4, 4),
    "DynamicsSensor": _either("UseRPY", (19,), (18,)),
    "DVLSensor": _either("ReturnRange", (3,), (7,)),
    "DepthSensor": _fixed("float32", 1),
    "GPSSensor": _fixed("float32", 3),
    "MagnetometerSensor": _fixed("float32", 3),
    "BSTSensor": _fixed("float32", 3),
    "AcousticBeaconSensor": _fixed("float32", 4),
    "OpticalModemSensor": _fixed("bool", 1),
    "CameraSensor": _image(256, 256),
    "DepthCamera": _image(256, 256),
    "SemanticSegmentationCamera": _image(256, 256),
    "ImagingSonar": _sonar(_range(512, 0.1, 10.0), _azimuth(512)),
    "ProfilingSonar": _sonar(_range(750, 0.5, 75.0), _azimuth(480)),
    "SidescanSonar": _sonar(_range(0, 0.5, 35.0, 0.05)),
    "SinglebeamSonar": _sonar(_range(200, 0.5, 10.0)),
    "RaycastLidar": _lidar(5),
    "RaycastSemanticLidar": _lidar(7),
}
#: Kinds that HoloOcean has and Holodeck does not.
HOLOOCEAN_SENSORS = frozenset(_HOLOOCEAN_KINDS)

_KINDS: dict[str, _Maker] = {
    "LocationSensor": _fixed("float32", 3),
    "RotationSensor": _fixed("float32", 3),
    "VelocitySensor": _fixed("float32", 3),
    "OrientationSensor": _fixed("float32", 3, 3),
    "IMUSensor": lambda agent, config: SensorShape("float32", (4 if config.get("ReturnBias") else 2, 3)),
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
    **_HOLOOCEAN_KINDS,
}


def wire_type(sensor_type: str) -> str:
    """Return what a scenario's sensor type is called in commands."""
    return "WorldNumSensor" if sensor_type == "BallLocationSensor" else sensor_type


def default_config(sensor_type: str) -> dict[str, Any]:
    """Return the configuration of a sensor for which a scenario has none."""
    return {"Key": "BallLocation"} if sensor_type == "BallLocationSensor" else {}


def completed_config(sensor_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what HoloOcean's client adds to it."""
    added: dict[str, Any] = {}
    if sensor_type == "ProfilingSonar":
        added = {"RangeMin": 0.5, "RangeMax": 75}
        added |= {} if "RangeRes" in config else {"RangeBins": 750}
        added |= {} if "AzimuthRes" in config else {"AzimuthBins": 480}
    return added | dict(config)


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
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SpecError(f"configuration of {sensor_type}: {error}", backend="holodeck") from error
    if min(shape.shape) < 1 or shape.nbytes > _LARGEST_BYTES:
        raise SpecError(
            f"a {sensor_type} of {agent.scenario_name} with {dict(config)} would be {shape.dtype} {shape.shape}",
            backend="holodeck",
        )
    return shape
