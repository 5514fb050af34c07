"""SceneService: entities, simulation mode and play mode.

What cannot be done answers success=False with the value and what would do, it never raises. Simulated time passes by
the clients' steps alone, so "deterministic" and "fast" compute the same; "realtime" would need a clock of its own
beside them and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    EnterPlayModeRequest,
    EnterPlayModeResponse,
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
from lucky_transport_mujoco.entities import Entities
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["scene_handlers"]

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
