"""What is drawn and from where: the robot's model in the state of a moment, seen by a camera.

Debug drawings are geoms of MuJoCo's scene.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import DebugArrow, DebugLine, DebugVector3, DebugVelocityCommand
from lucky_transport_mujoco import robot, terrain
from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.world import MujocoWorlds

_Array = NDArray[np.float64]

#: MuJoCo wants a positive height even of a field that is not there.
_FLATTENED_M = 1e-4

#: The most debug drawings there may be: more than anyone can tell apart in an image.
MAX_DRAWINGS = 2000
#: Room for them, arrows of three lines and an arc among them, and for the robot's geoms.
_MAX_GEOMS = 500 + 3 * MAX_DRAWINGS

#: Where the sun's lamp is, seen from the robot: back along its direction, so that its beam and the shadow meet it.
_SUN_M = np.array([-2.0, -1.0, 10.0])

#: The view of the robot from behind, in MuJoCo's degrees and metres. It follows the robot's place but not its turning,
#: which would make a watcher dizzy.
BEHIND = "the robot from behind"
_AZIMUTH, _ELEVATION, _DISTANCE_M = 48.0, -19.0, 2.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One env at one moment; copies, never changed again.

    qpos: float64 (nq,). tilt: float64 (4,), the floor's orientation, w x y z. bumps_m: height of the tallest bump of
    rough ground, 0 for none. frame: how many control steps the env has made.
    """

    qpos: _Array
    tilt: _Array
    bumps_m: float = 0.0
    frame: int = 0

    @classmethod
    def of(cls, world: MujocoWorlds, env: int) -> Snapshot:
        """Return `env` as it is now; to be called between two steps."""
        model = world.model_of(env)
        rough = model.geom_conaffinity[terrain.geom(model, "bumps")] != 0
        height = float(model.hfield_size[0, 2]) if rough else 0.0
        tilt = model.geom_quat[terrain.geom(model, "floor")].copy()
        return cls(world.qpos(env).copy(), tilt, height, world.frame_number(env))

    @property
    def yaw(self) -> float:
        """Where the robot's front points, in radians from x towards y."""
        w, x, y, z = self.qpos[3:7]
        return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


@dataclass(frozen=True, slots=True)
class Eye:
    """A pinhole: where it is and where it looks, in the world's frame.

    place, right, up, forward: float64 (3,); the last three are unit vectors at right angles. opening: the tangent of
    half its vertical angle.
    """

    place: _Array
    right: _Array
    up: _Array
    forward: _Array
    opening: float

    def rays(self, width: int, height: int, rows: slice = slice(None)) -> _Array:
        """Return the directions through the centres of the pixels of those rows (all: float64 (height * width, 3)), one
        metre deep each.
        """
        step = 2 * self.opening / height
        across = (np.arange(width) + 0.5 - width / 2) * step
        upward = (height / 2 - np.arange(height)[rows] - 0.5) * step
        middle = self.forward + upward[:, None] * self.up
        return (middle[:, None, :] + (across[:, None] * self.right)[None]).reshape(-1, 3)


class RenderScene:
    """A model and its data, put into the state of a snapshot, and MuJoCo's scene of it.

    ground: counts how often the shape of the ground changed. eye: of what was looked at last.
    """

    eye: Eye

    def __init__(self) -> None:
        self.model = copy.copy(robot.load().model)
        self.data = mj.MjData(self.model)
        self.mjv = mj.MjvScene(self.model, _MAX_GEOMS)
        self.mjv.flags[mj.mjtRndFlag.mjRND_HAZE] = self.mjv.flags[mj.mjtRndFlag.mjRND_REFLECTION] = False
        self.mjv.flags[mj.mjtRndFlag.mjRND_FOG] = True
        self.ground = 0
        self.floor = terrain.geom(self.model, "floor")
        self._bumps_m = -1.0
        self._bumps = terrain.geom(self.model, "bumps")
        self._opaque = self.model.geom_rgba[self._bumps].copy()
        self._options = mj.MjvOption()

    def show(self, snapshot: Snapshot) -> None:
        """Put everything where the snapshot has it; places of bodies, geoms and cameras are up to date afterwards."""
        self.model.geom_quat[self.floor] = snapshot.tilt
        if snapshot.bumps_m != self._bumps_m:
            self.model.hfield_size[0, 2] = snapshot.bumps_m or _FLATTENED_M
            # bumps that are switched off lie in the floor: they must not be seen, by eyes or by rays
            self.model.geom_rgba[self._bumps] = self._opaque if snapshot.bumps_m else 0.0
            self.ground += 1
            self._bumps_m = snapshot.bumps_m
        self.data.qpos[:] = snapshot.qpos
        mj.mj_kinematics(self.model, self.data)
        mj.mj_comPos(self.model, self.data)
        mj.mj_camlight(self.model, self.data)
        self.data.light_xpos[0] = snapshot.qpos[:3] + _SUN_M

    def look(self, view: str) -> None:
        """Arrange everything as the camera of that name sees it, or BEHIND."""
        camera = mj.MjvCamera()
        if view == BEHIND:
            camera.lookat, camera.distance = self.data.qpos[:3], _DISTANCE_M
            camera.azimuth, camera.elevation = _AZIMUTH, _ELEVATION
        else:
            camera.type = mj.mjtCamera.mjCAMERA_FIXED
            camera.fixedcamid = self.model.camera(view).id
        mj.mjv_updateCamera(self.model, self.data, camera, self.mjv)  # first: the endless floor is laid around it
        mj.mjv_updateScene(self.model, self.data, self._options, None, camera, mj.mjtCatBit.mjCAT_ALL, self.mjv)
        left, right = self.mjv.camera  # of a stereo image; the eye is between them
        forward, up = left.forward.astype(np.float64), left.up.astype(np.float64)
        place = (left.pos.astype(np.float64) + right.pos) / 2
        self.eye = Eye(place, np.cross(forward, up), up, forward, float(left.frustum_top / left.frustum_near))


_Colour = tuple[float, float, float, float]

#: How thick lines are.
_THICK_M = 0.01

#: How much they shine by themselves: a third of their light, so that they are seen from their dark side.
_SHINE = 0.3

#: Head of an arrow, as a share of its length; it is as wide as it is long.
_HEAD = 0.22

_WHITE = (1.0, 1.0, 1.0, 1.0)
_GO = (0.15, 0.85, 0.3, 1.0)
_TURN = (0.15, 0.45, 1.0, 1.0)

#: A turning rate is an arc of that many radians around its robot, this far from it and in this many pieces.
_ARC_M = 0.35
_ARC_PIECES = 24
_WHOLE_TURN = 1.9 * np.pi

#: Drawings end here, far behind every horizon; numbers beyond would only lose digits.
_FURTHEST_M = 1e6


def draw(scene: Any, drawings: Iterable[Any], yaw: float) -> None:
    """Add debug messages to a `mujoco.MjvScene`; a velocity command is that of a robot that faces `yaw`."""
    for drawing in drawings:
        if isinstance(drawing, DebugVelocityCommand):
            _add_command(scene, drawing, yaw)
        elif isinstance(drawing, DebugLine):
            _add_line(scene, _vector(drawing.start), _vector(drawing.end), _colour(drawing))
        else:
            way = _vector(drawing.direction) * (drawing.scale or 1.0)
            _add_arrow(scene, _vector(drawing.origin), way, _colour(drawing), _HEAD)


def _add_line(scene: Any, start: _Array, end: _Array, colour: _Colour) -> None:
    start, end = np.clip([start, end], -_FURTHEST_M, _FURTHEST_M)
    geom, kind = scene.geoms[scene.ngeom], mj.mjtGeom.mjGEOM_CAPSULE
    mj.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.zeros(9), np.clip(colour, 0, 1).astype(np.float32))
    mj.mjv_connector(geom, kind, _THICK_M, start, end)
    geom.category, geom.emission, geom.specular = mj.mjtCatBit.mjCAT_DECOR, _SHINE, 0.0
    scene.ngeom += 1


def _add_arrow(scene: Any, origin: _Array, way: _Array, colour: _Colour, head: float) -> None:
    """Add a shaft and two barbs of a share of its length; nothing for an arrow without length."""
    length, tip = float(np.linalg.norm(way)), origin + way
    if length < 1e-6:
        return
    _add_line(scene, origin, tip, colour)
    across = np.cross(way, (0.0, 0.0, 1.0) if abs(way[2]) < 0.9 * length else (1.0, 0.0, 0.0))
    across *= length / np.linalg.norm(across)
    for side in (across, -across):
        _add_line(scene, tip, tip - head * (way - 0.5 * side), colour)


def _vector(vector: DebugVector3 | None) -> _Array:
    return np.array((vector.x, vector.y, vector.z) if vector else (0.0, 0.0, 0.0), np.float64)


def _colour(drawing: DebugLine | DebugArrow) -> _Colour:
    color = drawing.color
    return (color.r, color.g, color.b, color.a) if color else _WHITE


def _add_command(scene: Any, command: DebugVelocityCommand, yaw: float) -> None:
    """Add an arrow for the walking speed (one metre long for 1 m/s) and an arc for the turning rate."""
    scale, origin = command.scale or 1.0, _vector(command.origin)
    ahead, left = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    _add_arrow(scene, origin, (command.lin_vel_x * ahead + command.lin_vel_y * left) * scale, _GO, _HEAD)
    turn = float(np.clip(command.ang_vel_z, -_WHOLE_TURN, _WHOLE_TURN))
    if abs(turn) < 1e-3:
        return
    angles = np.linspace(0.0, turn, _ARC_PIECES + 1)
    arc = origin + _ARC_M * scale * (np.cos(angles)[:, None] * ahead + np.sin(angles)[:, None] * left)
    for start, end in pairwise(arc[:-1]):
        _add_line(scene, start, end, _TURN)
    _add_arrow(scene, arc[-2], arc[-1] - arc[-2], _TURN, _HEAD * _ARC_PIECES / 3)
