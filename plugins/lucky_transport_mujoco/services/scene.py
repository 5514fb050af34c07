"""SceneService: entities, simulation mode and play mode.

A request that cannot be done is answered with success=False and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport import messages as m
from lucky_transport.errors import SpecError, UnknownName
from lucky_transport_mujoco.bindings import Data, mj
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.services.service import Service
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds, robot_entity

_PATH = "lucky_transport_mujoco/quadruped.xml"

#: Further out float32 positions are no longer exact to a tenth of a millimetre.
_FURTHEST_M = 1000.0


class SceneService(Service):
    """See the module."""

    service = "SceneService"

    def __init__(self, world: MujocoWorlds, entities: Entities) -> None:
        super().__init__(world)
        self._entities = entities

    def get_scene_info(self, _: m.GetSceneInfoRequest) -> m.GetSceneInfoResponse:
        return m.GetSceneInfoResponse(NAME, _PATH, len(self._entities.all))

    def list_entities(self, request: m.ListEntitiesRequest) -> m.ListEntitiesResponse:
        include = request.include_transforms, request.include_components
        return m.ListEntitiesResponse(self._entities.describe_all(transforms=include[0], components=include[1]))

    def get_entity(self, request: m.GetEntityRequest) -> m.GetEntityResponse:
        found = self._entities.find(request.id, request.name)
        if found is None:
            return m.GetEntityResponse(False)
        return m.GetEntityResponse(True, self._entities.describe(found, transform=True, components=True))

    def set_entity_transform(self, request: m.SetEntityTransformRequest) -> None:
        """Move a robot."""
        if request.id is None:
            raise SpecError("no id: give the id of an entity, as ListEntities has it")
        found = self._entities.find(request.id, "")
        if found is None:
            raise UnknownName(f"no entity {request.id.id}; ListEntities has them all")
        if found.kind != "robot":
            last = self.world.num_envs - 1
            robots = "agent_0" if last == 0 else f"agent_0 to agent_{last}"
            text = f"entity {found.id} ({found.name!r}, a {found.kind}) cannot be moved by itself; robots can: {robots}"
            raise SpecError(text)
        place, turn = _checked(request.transform)
        qpos = self.world.qpos(found.index)
        qpos[:3] = place
        qpos[3:7] = turn / np.linalg.norm(turn)

    def set_simulation_mode(self, request: m.SetSimulationModeRequest) -> m.SetSimulationModeResponse:
        mode, problem = int(request.mode), ""
        # only steps move simulated time, so deterministic and fast compute the same; realtime would need a second clock
        if mode == m.SimulationMode.REALTIME:
            problem = "realtime (0) is refused while a client is connected: its steps move time"
            problem += "; use deterministic or fast"
        elif mode not in (m.SimulationMode.DETERMINISTIC, m.SimulationMode.FAST):
            problem = f"simulation mode {mode}: expected 1 (deterministic) or 2 (fast)"
        else:
            self.world.simulation_mode = mode
        return m.SetSimulationModeResponse(not problem, problem, m.SimulationMode(self.world.simulation_mode))

    def get_simulation_mode(self, _: m.GetSimulationModeRequest) -> m.GetSimulationModeResponse:
        return m.GetSimulationModeResponse(m.SimulationMode(self.world.simulation_mode))

    def enter_play_mode(self, _: m.EnterPlayModeRequest) -> m.EnterPlayModeResponse:
        was, self.world.playing = self.world.playing, True
        return m.EnterPlayModeResponse(True, "already in play mode" if was else "in play mode")

    def exit_play_mode(self, _: m.ExitPlayModeRequest) -> m.ExitPlayModeResponse:
        was, self.world.playing = self.world.playing, False
        text = "left play mode; this engine has no editor, so it can still be stepped" if was else "not in play mode"
        return m.ExitPlayModeResponse(True, text)


def _checked(transform: m.Transform | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return position (3,) and rotation (4,), w x y z."""
    if transform is None or transform.position is None or transform.rotation is None:
        raise SpecError(
            "transform without position or rotation: it replaces the whole transform, fill every part of it"
        )
    at, turn, scale = transform.position, transform.rotation, transform.scale
    place, rotation = np.array([at.x, at.y, at.z]), np.array([turn.w, turn.x, turn.y, turn.z])
    if not (np.isfinite(place).all() and np.abs(place).max() <= _FURTHEST_M):
        raise SpecError(f"position {place.tolist()}: expected finite numbers within {_FURTHEST_M:g} m")
    length = float(np.linalg.norm(rotation))
    if not (math.isfinite(length) and 0.5 <= length <= 2):
        turned = [turn.x, turn.y, turn.z, turn.w]
        raise SpecError(f"rotation (x y z w) {turned}: expected a unit quaternion")
    if scale is not None and (scale.x, scale.y, scale.z) != (1.0, 1.0, 1.0):
        text = f"scale {scale.x:g} {scale.y:g} {scale.z:g}: MuJoCo cannot scale a compiled body, expected 1 1 1"
        raise SpecError(text)
    return place, rotation


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing of the scene: `index` is an env for a robot, else a number in MuJoCo's model."""

    id: int
    name: str
    kind: str
    index: int


class Entities:
    """The robots of all envs, then the rest of the shown world. An id belongs to one entity while the engine runs."""

    def __init__(self, world: MujocoWorlds) -> None:
        self._world = world
        model, kinds = world.robot.model, mj.mjtObj
        rows = [Entity(robot_entity(env), f"agent_{env}", "robot", env) for env in range(world.num_envs)]
        for kind, what, indices in (
            ("limb", kinds.mjOBJ_BODY, range(_BASE + 1, model.nbody)),
            ("camera", kinds.mjOBJ_CAMERA, range(model.ncam)),
            ("light", kinds.mjOBJ_LIGHT, range(model.nlight)),
            ("ground", kinds.mjOBJ_GEOM, np.flatnonzero(model.geom_bodyid == 0).tolist()),
        ):
            first = _KINDS[kind].first_id
            rows += [Entity(first + i, mj.mj_id2name(model, what, i), kind, i) for i in indices]
        self.all = tuple(rows)
        self.cameras = tuple(row for row in rows if row.kind == "camera")
        self._by_id = {row.id: row for row in rows}
        self._by_name = {row.name: row for row in reversed(rows)}
        self._by_name |= dict.fromkeys(("trunk", NAME), rows[SHOWN])

    def find(self, id: m.EntityId | None, name: str) -> Entity | None:
        """Return the entity with that id or, without one, that name; None when there is none."""
        return self._by_name.get(name) if id is None else self._by_id.get(id.id)

    def describe(self, entity: Entity, *, transform: bool, components: bool, data: Data = None) -> m.EntityInfo:
        """Return what a client is told of it; `data` holds the places of the shown world, which are computed else."""
        kind = _KINDS[entity.kind]
        where: m.Transform | None = None
        if transform and kind.place is None:
            qpos = self._world.qpos(entity.index)
            where = _placed(qpos[:3], qpos[3:7])
        elif transform and kind.place is not None:
            where = kind.place(self._world.data_of() if data is None else data, entity.index)
        return m.EntityInfo(m.EntityId(entity.id), entity.name, where, list(kind.components) if components else [])

    def describe_all(self, *, transforms: bool, components: bool) -> list[m.EntityInfo]:
        """Return what a client is told of all of them."""
        data = self._world.data_of() if transforms else None
        return [self.describe(row, transform=transforms, components=components, data=data) for row in self.all]


def _placed(place: NDArray[np.float64], turn: NDArray[np.float64]) -> m.Transform:
    """Return the transform of a place and a quaternion w x y z; MuJoCo scales nothing."""
    w, x, y, z = turn.tolist()
    return m.Transform(m.Vec3(*place.tolist()), m.Quat(x, y, z, w), m.Vec3(1.0, 1.0, 1.0))


def _quaternion(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(4)
    mj.mju_mat2Quat(out, matrix.ravel())
    return out


def _from_down(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quaternion that turns straight down into `direction`."""
    out = np.empty(4)
    mj.mju_quatZ2Vec(out, -direction / np.linalg.norm(direction))
    return out


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of entity: its first id, what it is made of, and where it is; None: where its own world has it."""

    first_id: int
    components: tuple[str, ...]
    place: Callable[[Data, int], m.Transform] | None


#: Body 1 is the robot's base, the robot itself; limbs follow it.
_BASE = 1

_KINDS = {
    "robot": _Kind(robot_entity(0), ("Transform", "Robot", "RigidBody"), None),
    "limb": _Kind(0, ("Transform", "RigidBody"), lambda data, i: _placed(data.xpos[i], data.xquat[i])),
    "camera": _Kind(
        1000, ("Transform", "Camera"), lambda data, i: _placed(data.cam_xpos[i], _quaternion(data.cam_xmat[i]))
    ),
    "ground": _Kind(
        2000, ("Transform", "Collider"), lambda data, i: _placed(data.geom_xpos[i], _quaternion(data.geom_xmat[i]))
    ),
    "light": _Kind(
        3000, ("Transform", "Light"), lambda data, i: _placed(data.light_xpos[i], _from_down(data.light_xdir[i]))
    ),
}
