"""Where agents are: an engine's entities read and moved with Holodeck's numbers, and the sensors that show it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import TransportError
from lucky_transport.host.host import Host
from lucky_transport.messages import EntityInfo, ListEntitiesRequest, Quat, SetEntityTransformRequest, Transform, Vec3
from lucky_transport.messages.methods import method
from lucky_transport_holodeck.agent_types import Teleport

_log = logging.getLogger("lucky_transport")
_LIST = method("/hazel.rpc.SceneService/ListEntities")
_MOVE = method("/hazel.rpc.SceneService/SetEntityTransform")
#: Returns what a sensor shows now.
PoseReader = Callable[[], NDArray[np.float32]]
#: Metres below zero from which on a GPSSensor shows nothing, unless its configuration has another Depth.
_GPS_DEPTH = 2.0


class Poses:
    """The places of a host's agents, where it has SceneService: metres; roll, pitch and yaw in degrees, in this order.

    `refresh` has them read again; call it once per tick. What the engine does not answer is logged once.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.are_known = host.implements(_LIST)
        self._can_move = host.implements(_MOVE)
        self._entities: dict[str, EntityInfo] | None = None
        self._starts: dict[int, Teleport] = {}
        self._logged: set[str] = set()

    def refresh(self) -> None:
        """Forget what is known: the agents have moved."""
        self._entities = None

    def _entity(self, env: int) -> EntityInfo | None:
        if self._entities is None:
            answer = self._host.call(_LIST, ListEntitiesRequest(include_transforms=True))
            self._entities = {entity.name: entity for entity in answer.entities}
        return self._entities.get(f"agent_{env}")

    def _transform(self, env: int) -> Transform:
        entity = self._entity(env)
        return (entity.transform if entity is not None else None) or Transform()

    def location(self, env: int) -> NDArray[np.float32]:
        """Return where the agent is, float32 (3,), metres."""
        place = self._transform(env).position or Vec3()
        return np.array([place.x, place.y, place.z], np.float32)

    def axes(self, env: int) -> NDArray[np.float32]:
        """Return the directions of the agent's own axes, float32 (3, 3): forward, sideways, up, one a row."""
        return _matrix(self._transform(env).rotation or Quat(w=1.0)).T.astype(np.float32)

    def rotation(self, env: int) -> NDArray[np.float32]:
        """Return roll, pitch and yaw, float32 (3,), degrees."""
        matrix = _matrix(self._transform(env).rotation or Quat(w=1.0))
        pitch = math.asin(max(-1.0, min(1.0, -matrix[2, 0])))
        angles = (math.atan2(matrix[2, 1], matrix[2, 2]), pitch, math.atan2(matrix[1, 0], matrix[0, 0]))
        return np.degrees(np.array(angles)).astype(np.float32)

    def set_start(self, env: int, location: Sequence[float], rotation: Sequence[float]) -> None:
        """Have an agent stand somewhere from its next reset on; zeros mean that the engine chooses."""
        if any(location) or any(rotation):
            self._starts[env] = Teleport(tuple(location), tuple(rotation))

    def apply_starts(self) -> None:
        """Put the agents that were just reset where they were wanted."""
        while self._starts:
            self.move(*self._starts.popitem())

    def move(self, env: int, to: Teleport) -> None:
        """Put an agent elsewhere, or turn it, or both; no engine of ours takes velocities."""
        if not (self.are_known and self._can_move):
            self._warn(f"engine {self._host.spec.engine!r} cannot move agents: a teleport has no effect")
            return
        try:
            entity = self._entity(env)
            if entity is None or entity.id is None:
                self._warn(f"engine {self._host.spec.engine!r} has no entity agent_{env}: a teleport has no effect")
                return
            transform = self._transform(env)
            if to.location is not None:
                transform.position = Vec3(*to.location)
            if to.rotation is not None:
                transform.rotation = _quaternion(to.rotation)
            answer = self._host.call(_MOVE, SetEntityTransformRequest(entity.id, transform))
        except TransportError as error:
            self._warn(f"a teleport of agent_{env} failed: {error}")
            return
        if not answer.success:
            self._warn(f"a teleport of agent_{env} was refused: {answer.message}")
        elif to.velocity is not None and any((*to.velocity, *(to.angular_velocity or ()))):
            self._warn("a physics state was set without its velocities: no service of an engine takes them")
        self.refresh()

    def _warn(self, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            _log.warning("%s", text)


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


def _matrix(rotation: Quat) -> NDArray[np.float64]:
    """Return the rotation matrix, float64 (3, 3), of a quaternion of any length but 0."""
    quaternion = np.array([rotation.x, rotation.y, rotation.z, rotation.w])
    x, y, z, w = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _quaternion(rotation: Sequence[float]) -> Quat:
    """Return the quaternion of roll, pitch and yaw in degrees."""
    halves = np.radians(np.asarray(rotation, np.float64)) / 2
    (cr, cp, cy), (sr, sp, sy) = np.cos(halves), np.sin(halves)
    return Quat(
        x=sr * cp * cy - cr * sp * sy,
        y=cr * sp * cy + sr * cp * sy,
        z=cr * cp * sy - sr * sp * cy,
        w=cr * cp * cy + sr * sp * sy,
    )
