"""What is drawn, from where, and the interface of a renderer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.sensors.render_model import render_model
from lucky_transport_mujoco.world import MujocoWorlds

_Array = NDArray[np.float64]

#: MuJoCo wants a positive height even of a field that is not there.
_FLATTENED_M = 1e-4


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
class Orbit:
    """A view of the robot from around it: azimuth from x towards y and elevation in radians, distance in metres."""

    azimuth: float
    elevation: float
    distance: float
    fovy: float = 0.75


@dataclass(frozen=True, slots=True)
class Eye:
    """A pinhole: where it is and where it looks, in the world's frame; `fovy` is its vertical opening in radians.

    place, right, up, forward: float64 (3,); the last three are unit vectors at right angles.
    """

    place: _Array
    right: _Array
    up: _Array
    forward: _Array
    fovy: float

    def rays(self, width: int, height: int, rows: slice = slice(None)) -> _Array:
        """Return the directions through the centres of the pixels of those rows (all: float64 (height * width, 3)), one
        metre deep each.
        """
        step = 2 * np.tan(self.fovy / 2) / height
        across = (np.arange(width) + 0.5 - width / 2) * step
        upward = (height / 2 - np.arange(height)[rows] - 0.5) * step
        middle = self.forward + upward[:, None] * self.up
        return (middle[:, None, :] + (across[:, None] * self.right)[None]).reshape(-1, 3)

    def project(self, points: _Array, width: int, height: int) -> _Array:
        """Return where points (k, 3) are seen, float64 (k, 3): x and y in pixels, depth in metres (may be negative)."""
        away = points - self.place
        depth = away @ self.forward
        scale = height / (2 * np.tan(self.fovy / 2)) / np.where(depth == 0, np.inf, depth)
        x = width / 2 + (away @ self.right) * scale
        y = height / 2 - (away @ self.up) * scale
        return np.stack([x, y, depth], axis=1)


def camera_names() -> tuple[str, ...]:
    """Return the names of the robot's cameras, in the model's order."""
    model = render_model()
    return tuple(mj.mj_id2name(model, mj.mjtObj.mjOBJ_CAMERA, index) for index in range(model.ncam))


class RenderScene:
    """A model and its data, put into the state of a snapshot.

    `ground` counts how often the shape of the ground changed.
    """

    def __init__(self) -> None:
        self.model = render_model()
        self.data = mj.MjData(self.model)
        self.ground = 0
        self._bumps_m = -1.0
        self._floor = terrain.geom(self.model, "floor")
        self._bumps = terrain.geom(self.model, "bumps")
        self._opaque = self.model.geom_rgba[self._bumps].copy()

    def show(self, snapshot: Snapshot) -> None:
        """Put everything where the snapshot has it; places of bodies, geoms and cameras are up to date afterwards."""
        self.model.geom_quat[self._floor] = snapshot.tilt
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

    def eye(self, view: str | Orbit) -> Eye:
        """Return the eye of the camera of that name, or of a view from around the robot.

        Raises KeyError for a name that no camera has.
        """
        if isinstance(view, Orbit):
            return self._orbit(view)
        index = mj.mj_name2id(self.model, mj.mjtObj.mjOBJ_CAMERA, view)
        if index < 0:
            raise KeyError(view)
        turned = self.data.cam_xmat[index].reshape(3, 3)
        fovy = float(np.deg2rad(self.model.cam_fovy[index]))
        return Eye(self.data.cam_xpos[index].copy(), turned[:, 0].copy(), turned[:, 1].copy(), -turned[:, 2], fovy)

    def _orbit(self, view: Orbit) -> Eye:
        level, tilt = np.cos(view.elevation), np.sin(view.elevation)
        cos, sin = np.cos(view.azimuth), np.sin(view.azimuth)
        outward = np.array([level * cos, level * sin, tilt])
        right = np.array([-sin, cos, 0.0])
        up = np.array([-tilt * cos, -tilt * sin, level])
        return Eye(self.data.qpos[:3] + view.distance * outward, right, up, -outward, view.fovy)


@dataclass(slots=True)
class RenderResult:
    """Pixels, top row first; what was not asked for is empty.

    colour: uint8 (height, width, 3), RGB. depth: float32 (height, width), metres along the line of sight's axis, inf
    where nothing is.
    """

    colour: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 0, 3), np.uint8))
    depth: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))


class Renderer(ABC):
    """Draws what its scene shows; made, used and closed in one thread. `name` says how, for the log."""

    name: str

    @abstractmethod
    def render(self, eye: Eye, width: int, height: int, *, colour: bool, depth: bool) -> RenderResult:
        """Return what `eye` sees, in pixels of the renderer's own: new arrays, never written to again."""

    @abstractmethod
    def close(self) -> None:
        """Release what the renderer holds."""
