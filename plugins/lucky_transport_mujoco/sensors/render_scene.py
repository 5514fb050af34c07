"""What is drawn and from where: the robot's model in the state of a moment, seen by a camera."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
