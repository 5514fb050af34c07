"""MujocoSceneService: direct writes to the shown world, and the gains of its actuators.

A control set by hand drives its actuator in steps without actions, until a step with actions, a reset or ResetScene; a
motion graph drives over it. It is in place when the answer comes: no step comes between, so there is nothing more to
wait for with `wait_for_next_step`. Actuators that an agent or an active slot owns are left alone and named in the
answer. A request with one value that cannot be written writes none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Handler
from lucky_transport.messages import (
    ActuatorGainInfo,
    GetActuatorGainsRequest,
    GetActuatorGainsResponse,
    ResetSceneRequest,
    ResetSceneResponse,
    SetControlRequest,
    SetControlResponse,
    SetQposRequest,
    SetQposResponse,
)
from lucky_transport_mujoco.lookup import Refused, near
from lucky_transport_mujoco.physics import FARTHEST_M
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

__all__ = ["control_handlers"]

_PREFIX = "/hazel.rpc.MujocoSceneService/"

#: A gain below this is none: a torque policy owns the actuator.
_NO_GAIN = 1e-6


def control_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def set_control(request: SetControlRequest) -> SetControlResponse:
        try:
            return _set_control(world, request)
        except Refused as refusal:
            return SetControlResponse(False, str(refusal))

    def set_qpos(request: SetQposRequest) -> SetQposResponse:
        try:
            return SetQposResponse(True, "", _set_qpos(world, request))
        except Refused as refusal:
            return SetQposResponse(False, str(refusal))

    def gains(_: GetActuatorGainsRequest) -> GetActuatorGainsResponse:
        return GetActuatorGainsResponse(True, "", _gains(world))

    def reset(request: ResetSceneRequest) -> ResetSceneResponse:
        _reset(world, preserve_time=request.preserve_time)
        return ResetSceneResponse(True)

    return {
        _PREFIX + "SetControl": set_control,
        _PREFIX + "SetQpos": set_qpos,
        _PREFIX + "GetActuatorGains": gains,
        _PREFIX + "ResetScene": reset,
    }


def _set_control(world: MujocoWorlds, request: SetControlRequest) -> SetControlResponse:
    model, names = world.model_of(SHOWN), world.robot.actuator_names
    wanted = _controls(world, request)
    owned = (world.controllers.claims(SHOWN) != 0) | world.agent_drives[SHOWN]
    rejected = [names[actuator] for actuator in sorted(wanted) if owned[actuator]]
    written = {actuator: value for actuator, value in wanted.items() if not owned[actuator]}
    for actuator, value in written.items():
        if model.actuator_ctrllimited[actuator] and not request.skip_range_clamp:
            value = float(np.clip(value, *model.actuator_ctrlrange[actuator]))
        world.ctrl[SHOWN, actuator] = value
        world.driving.held.put(SHOWN, actuator, value)
    return SetControlResponse(True, "", len(written), rejected)


def _controls(world: MujocoWorlds, request: SetControlRequest) -> dict[int, float]:
    """Return the value wanted for each actuator: bulk, then indexed, then named; raises Refused."""
    names = world.robot.actuator_names
    values: dict[int, float] = dict(enumerate(request.bulk[: len(names)]))  # values past the last are ignored
    for entry in request.indexed:
        if entry.actuator_index >= len(names):
            raise Refused(f"actuator_index {entry.actuator_index}: expected 0 to {len(names) - 1}")
        values[entry.actuator_index] = entry.value
    for named in request.named:
        if named.actuator_name not in names:
            raise Refused(f"no actuator {named.actuator_name!r}{near(named.actuator_name, names)}")
        values[names.index(named.actuator_name)] = named.value
    for actuator, value in values.items():
        if not math.isfinite(value):
            raise Refused(f"the control of actuator {names[actuator]!r} is {value}; expected a finite number")
    return values


def _set_qpos(world: MujocoWorlds, request: SetQposRequest) -> int:
    """Move the model and return how many values were written; raises Refused."""
    if world.agent_drives[SHOWN] and not request.force:
        raise Refused("an agent drives agent_0: moving it would corrupt the episode; set force to do it all the same")
    qpos = world.qpos()
    moved, places = _positions(qpos, request)
    within = np.abs(moved) < FARTHEST_M  # not so for NaN
    if not within.all():
        wrong = int(np.argmin(within))
        raise Refused(f"qpos[{wrong}] {moved[wrong]}: expected a number from {-FARTHEST_M:g} to {FARTHEST_M:g}")
    length = float(np.linalg.norm(moved[3:7]))
    if length < 1e-6:
        raise Refused(f"qpos[3:7] {moved[3:7].tolist()} is no orientation; expected a unit quaternion w x y z")
    if abs(length - 1) > 1e-6:  # float32 rounding alone would shift a good one
        moved[3:7] /= length
    qpos[:] = moved
    if not request.skip_policy_reseed:
        world.controllers.of(SHOWN).begin()
    return places


def _positions(qpos: NDArray[np.float64], request: SetQposRequest) -> tuple[NDArray[np.float64], int]:
    """Return the positions wanted, and how many values the request gave for them; raises Refused."""
    if request.bulk and len(request.bulk) != qpos.size:
        raise Refused(f"bulk of {len(request.bulk)} values: expected {qpos.size}, the whole qpos")
    moved = np.array(request.bulk, np.float64) if request.bulk else qpos.copy()
    places = set(range(len(request.bulk)))
    for entry in request.indexed:
        if entry.qpos_index >= qpos.size:
            raise Refused(f"qpos_index {entry.qpos_index}: expected 0 to {qpos.size - 1}")
        moved[entry.qpos_index] = entry.value
        places.add(entry.qpos_index)
    return moved, len(places)


def _gains(world: MujocoWorlds) -> list[ActuatorGainInfo]:
    model = world.model_of(SHOWN)
    rows = zip(world.robot.actuator_names, model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 0], strict=True)
    return [
        ActuatorGainInfo(index, name, float(gain), float(bias), abs(float(gain)) < _NO_GAIN)
        for index, (name, gain, bias) in enumerate(rows)
    ]


def _reset(world: MujocoWorlds, *, preserve_time: bool) -> None:
    """Put the robot into the standing pose of keyframe 0, on the ground it has; policies go on from there."""
    seconds = world.time()
    world.randomization.stand(SHOWN)
    if preserve_time:
        world.physics.times[SHOWN] = seconds
    world.ctrl[SHOWN] = 0
    world.driving.held.drop(np.array([SHOWN]), np.ones(1, np.bool_))
    world.controllers.of(SHOWN).begin()
