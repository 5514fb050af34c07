"""What a sensor shows of where its agent is, from an engine with SceneService."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_holodeck.poses import Poses

#: Returns what a sensor shows now.
PoseReader = Callable[[], NDArray[np.float32]]
#: Metres below zero from which on a GPSSensor shows nothing, unless its configuration has another Depth.
_GPS_DEPTH = 2.0


def pose_reader(
    poses: Poses, env: int, sensor_type: str, config: Mapping[str, Any], *, is_holoocean: bool
) -> PoseReader | None:
    """Return the reader of a sensor of an env's agent, None for a sensor that shows something else.

    is_holoocean: an OrientationSensor shows the agent's axes as columns, not as rows. Raises TypeError or ValueError
    for a configuration that makes no sense.
    """
    make = _MAKERS.get(sensor_type)
    if sensor_type == "OrientationSensor" and is_holoocean:
        return lambda: poses.axes(env).T
    return None if make is None else make(poses, env, config)


def _depth(poses: Poses, env: int, config: Mapping[str, Any]) -> PoseReader:
    return lambda: poses.location(env)[2:]


def _gps(poses: Poses, env: int, config: Mapping[str, Any]) -> PoseReader:
    depth = float(config.get("Depth", _GPS_DEPTH))
    nothing = np.full(3, np.nan, np.float32)

    def read() -> NDArray[np.float32]:
        location = poses.location(env)
        return location if -location[2] < depth else nothing

    return read


def _magnetometer(poses: Poses, env: int, config: Mapping[str, Any]) -> PoseReader:
    field = np.array(config.get("MagneticVector", (1, 0, 0)), np.float32).reshape(3)
    return lambda: poses.axes(env) @ field


def _pose(poses: Poses, env: int, config: Mapping[str, Any]) -> PoseReader:
    matrix = np.eye(4, dtype=np.float32)

    def read() -> NDArray[np.float32]:
        matrix[:3, :3] = poses.axes(env).T
        matrix[:3, 3] = poses.location(env)
        return matrix

    return read


_MAKERS: dict[str, Callable[[Poses, int, Mapping[str, Any]], PoseReader]] = {
    "LocationSensor": lambda poses, env, config: partial(poses.location, env),
    "RotationSensor": lambda poses, env, config: partial(poses.rotation, env),
    "OrientationSensor": lambda poses, env, config: partial(poses.axes, env),
    "DepthSensor": _depth,
    "GPSSensor": _gps,
    "MagnetometerSensor": _magnetometer,
    "PoseSensor": _pose,
}
