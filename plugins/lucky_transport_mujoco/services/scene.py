"""SceneService: entities, simulation mode and play mode.

A request that cannot be done is answered with success=False and the reason; no method raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    EnterPlayModeRequest,
    EnterPlayModeResponse,
    EntityId,
    EntityInfo,
    ExitPlayModeRequest,
    ExitPlayModeResponse,
    GetEntityRequest,
    GetEntityResponse,
    GetSceneInfoRequest,
    GetSceneInfoResponse,
    GetSimulationModeRequest,
    GetSimulationModeResponse,
    ListEntitiesRequest,
    ListEntitiesResponse,
    Quat,
    SetEntityTransformRequest,
    SetEntityTransformResponse,
    SetSimulationModeRequest,
    SetSimulationModeResponse,
    SimulationMode,
    Transform,
    Vec3,
)
from lucky_transport_mujoco.bindings import Data, mj
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds, robot_entity

_PREFIX = "/hazel.rpc.SceneService/"
_PATH = "lucky_transport_mujoco/quadruped.xml"

#: Further out float32 positions are no longer exact to a tenth of a millimetre.
_FURTHEST_M = 1000.0


def scene_handlers(world: MujocoWorlds, entities: Entities) -> Mapping[str, Handler]:
    """Return the handlers, by full method name; they are called between steps."""

    def info(_: GetSceneInfoRequest) -> GetSceneInfoResponse:
        return GetSceneInfoResponse(NAME, _PATH, len(entities.all))

    def listed(request: ListEntitiesRequest) -> ListEntitiesResponse:
        found = entities.describe_all(transforms=request.include_transforms, components=request.include_components)
        return ListEntitiesResponse(found)

    def entity(request: GetEntityRequest) -> GetEntityResponse:
        found = entities.find(request.id, request.name)
        if found is None:
            return GetEntityResponse(False)
        return GetEntityResponse(True, entities.describe(found, transform=True, components=True))

    def place(request: SetEntityTransformRequest) -> SetEntityTransformResponse:
        problem = _place(world, entities, request)
        return SetEntityTransformResponse(not problem, problem)

    return {
        _PREFIX + "GetSceneInfo": info,
        _PREFIX + "ListEntities": listed,
        _PREFIX + "GetEntity": entity,
        _PREFIX + "SetEntityTransform": place,
        **_mode_handlers(world),
        **_play_handlers(world),
    }


def _mode_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    def choose(request: SetSimulationModeRequest) -> SetSimulationModeResponse:
        problem = _mode_problem(int(request.mode))
        if not problem:
            world.simulation_mode = int(request.mode)
        return SetSimulationModeResponse(not problem, problem, SimulationMode(world.simulation_mode))

    def chosen(_: GetSimulationModeRequest) -> GetSimulationModeResponse:
        return GetSimulationModeResponse(SimulationMode(world.simulation_mode))

    return {_PREFIX + "SetSimulationMode": choose, _PREFIX + "GetSimulationMode": chosen}


def _mode_problem(mode: int) -> str:
    # only steps move simulated time, so deterministic and fast compute the same; realtime would need a second clock
    if mode == SimulationMode.REALTIME:
        return "realtime (0) is refused while a client is connected: its steps move time; use deterministic or fast"
    if mode not in (SimulationMode.DETERMINISTIC, SimulationMode.FAST):
        return f"simulation mode {mode}: expected 1 (deterministic) or 2 (fast)"
    return ""


def _play_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    def enter(_: EnterPlayModeRequest) -> EnterPlayModeResponse:
        was, world.playing = world.playing, True
        return EnterPlayModeResponse(True, "already in play mode" if was else "in play mode")

    def leave(_: ExitPlayModeRequest) -> ExitPlayModeResponse:
        was, world.playing = world.playing, False
        text = "left play mode; this engine has no editor, so it can still be stepped" if was else "not in play mode"
        return ExitPlayModeResponse(True, text)

    return {_PREFIX + "EnterPlayMode": enter, _PREFIX + "ExitPlayMode": leave}


def _place(world: MujocoWorlds, entities: Entities, request: SetEntityTransformRequest) -> str:
    """Move an entity; returns what is wrong, "" when it was moved."""
    robots = "agent_0" if world.num_envs == 1 else f"agent_0 to agent_{world.num_envs - 1}"
    if request.id is None:
        return "no id: give the id of an entity, as ListEntities has it"
    found = entities.find(request.id, "")
    if found is None:
        return f"no entity {request.id.id}; ListEntities has them all"
    if found.kind != "robot":
        return f"entity {found.id} ({found.name!r}, a {found.kind}) cannot be moved by itself; robots can: {robots}"
    problem = _transform_problem(request.transform)
    if problem:
        return problem
    place, turn = _numbers(request.transform)
    qpos = world.qpos(found.index)
    qpos[:3] = place
    qpos[3:7] = turn / np.linalg.norm(turn)
    return ""


def _numbers(transform: Transform | None) -> tuple[np.ndarray, np.ndarray]:
    """Return position (3,) and rotation (4,), w x y z."""
    where = transform or Transform()
    place, turn = where.position or Vec3(), where.rotation or Quat()
    return np.array([place.x, place.y, place.z]), np.array([turn.w, turn.x, turn.y, turn.z])


def _transform_problem(transform: Transform | None) -> str:
    if transform is None or transform.position is None or transform.rotation is None:
        return "transform without position or rotation: it replaces the whole transform, fill every part of it"
    place, turn = _numbers(transform)
    if not (np.isfinite(place).all() and np.abs(place).max() <= _FURTHEST_M):
        return f"position {place.tolist()}: expected finite numbers within {_FURTHEST_M:g} m"
    length = float(np.linalg.norm(turn))
    if not (math.isfinite(length) and 0.5 <= length <= 2):
        return f"rotation (x y z w) {[*turn[1:].tolist(), float(turn[0])]}: expected a unit quaternion"
    scale = transform.scale
    if scale is not None and (scale.x, scale.y, scale.z) != (1.0, 1.0, 1.0):
        return f"scale {scale.x:g} {scale.y:g} {scale.z:g}: MuJoCo cannot scale a compiled body, expected 1 1 1"
    return ""


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

    def find(self, id: EntityId | None, name: str) -> Entity | None:
        """Return the entity with that id or, without one, that name; None when there is none."""
        return self._by_name.get(name) if id is None else self._by_id.get(id.id)

    def describe(self, entity: Entity, *, transform: bool, components: bool, data: Data = None) -> EntityInfo:
        """Return what a client is told of it; `data` holds the places of the shown world, which are computed else."""
        kind = _KINDS[entity.kind]
        where: Transform | None = None
        if transform and kind.place is None:
            qpos = self._world.qpos(entity.index)
            where = _placed(qpos[:3], qpos[3:7])
        elif transform and kind.place is not None:
            where = kind.place(self._world.data_of() if data is None else data, entity.index)
        return EntityInfo(EntityId(entity.id), entity.name, where, list(kind.components) if components else [])

    def describe_all(self, *, transforms: bool, components: bool) -> list[EntityInfo]:
        """Return what a client is told of all of them."""
        data = self._world.data_of() if transforms else None
        return [self.describe(row, transform=transforms, components=components, data=data) for row in self.all]


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


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of entity: its first id, what it is made of, and where it is; None: where its own world has it."""

    first_id: int
    components: tuple[str, ...]
    place: Callable[[Data, int], Transform] | None


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
