"""The scene as a list of entities: the robots of all envs, and what the shown world holds beside.

An id belongs to one thing for as long as the engine runs: 1 to 999 the robot's limbs, from 1000 cameras, from 2000 the
ground, from 3000 lights, and robots as `world.robot_entity` has it. Robots are listed first, then what belongs to the
shown world.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import EntityId, EntityInfo, Quat, Transform, Vec3
from lucky_transport_mujoco.bindings import Data, mj
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds, robot_entity

__all__ = ["Entities", "Entity"]

_CAMERAS, _GROUND, _LIGHTS = 1000, 2000, 3000

#: Body 1 is the robot's base: the robot itself.
_BASE = 1

_COMPONENTS = {
    "robot": ["Transform", "Robot", "RigidBody"],
    "limb": ["Transform", "RigidBody"],
    "camera": ["Transform", "Camera"],
    "ground": ["Transform", "Collider"],
    "light": ["Transform", "Light"],
}


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing of the scene: `index` is an env for a robot, else a number in MuJoCo's model."""

    id: int
    name: str
    kind: str
    index: int


class Entities:
    """All entities of a world."""

    def __init__(self, world: MujocoWorlds) -> None:
        self._world = world
        model, kinds = world.robot.model, mj.mjtObj
        rows = [Entity(robot_entity(env), f"agent_{env}", "robot", env) for env in range(world.num_envs)]
        for kind, what, first, start, count in (
            ("limb", kinds.mjOBJ_BODY, 0, _BASE + 1, model.nbody),
            ("camera", kinds.mjOBJ_CAMERA, _CAMERAS, 0, model.ncam),
            ("light", kinds.mjOBJ_LIGHT, _LIGHTS, 0, model.nlight),
        ):
            rows += [Entity(first + i, mj.mj_id2name(model, what, i), kind, i) for i in range(start, count)]
        ground = np.flatnonzero(model.geom_bodyid == 0)
        rows += [Entity(_GROUND + int(i), mj.mj_id2name(model, kinds.mjOBJ_GEOM, i), "ground", int(i)) for i in ground]
        self.all = tuple(rows)
        self.cameras = tuple(row for row in rows if row.kind == "camera")
        self._by_id = {row.id: row for row in rows}
        self._by_name = {row.name: row for row in reversed(rows)}
        self._by_name |= dict.fromkeys(("trunk", NAME), rows[SHOWN])

    def find(self, id: EntityId | None, name: str) -> Entity | None:
        """Return the entity with that id or, without one, that name; None when there is none."""
        return self._by_name.get(name) if id is None else self._by_id.get(id.id)

    def describe(self, entity: Entity, *, transform: bool, components: bool) -> EntityInfo:
        """Return what a client is told of it."""
        return EntityInfo(
            EntityId(entity.id),
            entity.name,
            self._transform(entity) if transform else None,
            list(_COMPONENTS[entity.kind]) if components else [],
        )

    def describe_all(self, *, transforms: bool, components: bool) -> list[EntityInfo]:
        """Return what a client is told of all of them."""
        places = self._world.data_of() if transforms else None
        return [
            EntityInfo(
                EntityId(row.id),
                row.name,
                None if places is None else self._transform(row, places),
                list(_COMPONENTS[row.kind]) if components else [],
            )
            for row in self.all
        ]

    def _transform(self, entity: Entity, data: Data = None) -> Transform:
        """Return where it is; `data` holds the places of the shown world."""
        if entity.kind == "robot":
            qpos = self._world.qpos(entity.index)
            return _placed(qpos[:3], qpos[3:7])
        if data is None:
            data = self._world.data_of()
        index = entity.index
        if entity.kind == "limb":
            return _placed(data.xpos[index], data.xquat[index])
        if entity.kind == "camera":
            return _placed(data.cam_xpos[index], _quaternion(data.cam_xmat[index]))
        if entity.kind == "ground":
            return _placed(data.geom_xpos[index], _quaternion(data.geom_xmat[index]))
        return _placed(data.light_xpos[index], _from_down(data.light_xdir[index]))


def _placed(place: NDArray[np.float64], turn: NDArray[np.float64]) -> Transform:
    """Return the transform of a place and a quaternion w x y z; MuJoCo scales nothing."""
    w, x, y, z = turn.tolist()
    return Transform(Vec3(*place.tolist()), Quat(x, y, z, w), Vec3(1.0, 1.0, 1.0))


def _quaternion(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(4)
    mj.mju_mat2Quat(out, matrix.ravel())
    return out


def _from_down(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quaternion that turns straight down into `direction`."""
    out = np.empty(4)
    mj.mju_quatZ2Vec(out, -direction / np.linalg.norm(direction))
    return out
