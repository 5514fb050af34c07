"""MujocoSceneService: model and state of the shown world, direct writes to it, and the gains of its actuators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.messages import (
    ActuatorDescriptor,
    ActuatorGainInfo,
    FullState,
    GetActuatorGainsRequest,
    GetActuatorGainsResponse,
    GetFullStateRequest,
    GetFullStateResponse,
    GetModelInfoRequest,
    GetModelInfoResponse,
    JointDescriptor,
    MjJointType,
    ResetSceneRequest,
    ResetSceneResponse,
    SetControlRequest,
    SetControlResponse,
    SetQposRequest,
    SetQposResponse,
    StateFilter,
    StreamFullStateRequest,
)
from lucky_transport_mujoco.bindings import Model, mj
from lucky_transport_mujoco.lookup import Refused, answered, near, rate_hz
from lucky_transport_mujoco.physics import FARTHEST_M
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

_PREFIX = "/hazel.rpc.MujocoSceneService/"

#: Kind of joint -> (values in qpos, values in qvel).
_SIZES = {MjJointType.FREE: (7, 6), MjJointType.BALL: (4, 3), MjJointType.SLIDE: (1, 1), MjJointType.HINGE: (1, 1)}


def scene_state_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def model_info(_: GetModelInfoRequest) -> GetModelInfoResponse:
        return _model_info(world)

    def full_state(request: GetFullStateRequest) -> GetFullStateResponse:
        return _full_state(world, request)

    return {_PREFIX + "GetModelInfo": model_info, _PREFIX + "GetFullState": full_state}


def scene_state_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the stream's handler, by full method name."""

    def stream(request: StreamFullStateRequest, call: Call) -> Iterator[GetFullStateResponse]:
        for _ in call.ticks(rate_hz(request.target_fps)):
            with call.between_steps():
                item = _full_state(world, request)
            yield item
            if not item.success:
                return

    return {_PREFIX + "StreamFullState": stream}


def _model_info(world: MujocoWorlds) -> GetModelInfoResponse:
    model, owners = world.model_of(SHOWN), _owners(world)
    agent = bool(world.agent_drives[SHOWN])
    joints = [
        JointDescriptor(
            index=joint,
            name=mj.mj_id2name(model, mj.mjtObj.mjOBJ_JOINT, joint),
            type=MjJointType(int(model.jnt_type[joint])),
            qpos_adr=int(model.jnt_qposadr[joint]),
            qvel_adr=int(model.jnt_dofadr[joint]),
            limited=bool(model.jnt_limited[joint]),
            range_lo=float(model.jnt_range[joint, 0]),
            range_hi=float(model.jnt_range[joint, 1]),
            claimed_by_policy_slot_id=int(owners[joint]),
            claimed_by_rl_agent=agent and joint in model.actuator_trnid[:, 0],
        )
        for joint in range(model.njnt)
    ]
    actuators = [
        ActuatorDescriptor(
            index=actuator,
            name=mj.mj_id2name(model, mj.mjtObj.mjOBJ_ACTUATOR, actuator),
            ctrl_limited=bool(model.actuator_ctrllimited[actuator]),
            ctrl_range_lo=float(model.actuator_ctrlrange[actuator, 0]),
            ctrl_range_hi=float(model.actuator_ctrlrange[actuator, 1]),
            target_joint_index=int(model.actuator_trnid[actuator, 0]),
            claimed_by_policy_slot_id=int(owners[model.actuator_trnid[actuator, 0]]),
            claimed_by_rl_agent=agent,
        )
        for actuator in range(model.nu)
    ]
    return GetModelInfoResponse(True, "", model.nq, model.nv, model.nu, model.njnt, joints, actuators)


def _owners(world: MujocoWorlds) -> NDArray[np.uint32]:
    """Return uint32 (njnt,): the slot that drives each joint of the shown model, 0 where none does."""
    model = world.model_of(SHOWN)
    out = np.zeros(model.njnt, np.uint32)
    out[model.actuator_trnid[:, 0]] = world.controllers.claims(SHOWN)
    return out


def _full_state(world: MujocoWorlds, request: GetFullStateRequest | StreamFullStateRequest) -> GetFullStateResponse:
    """Return the vectors asked for, or all, of the joints that meet a condition of the filter, if it has any."""
    model, wanted = world.model_of(SHOWN), request.filter
    problem = _problem(world, wanted)
    if problem:
        return GetFullStateResponse(False, problem)
    qpos, qvel, ctrl = world.qpos(), world.qvel(), world.ctrl[SHOWN]
    joints, actuators = np.zeros(0, np.intp), np.zeros(0, np.intp)
    if wanted is not None and _has_conditions(wanted):
        joints = np.flatnonzero(_passing(world, wanted))
        actuators = np.flatnonzero(np.isin(model.actuator_trnid[:, 0], joints))
        qpos, qvel, ctrl = qpos[_places(model, joints, 0)], qvel[_places(model, joints, 1)], ctrl[actuators]
    everything = not (request.include_qpos or request.include_qvel or request.include_ctrl)
    state = FullState(
        qpos=qpos.tolist() if request.include_qpos or everything else [],
        qvel=qvel.tolist() if request.include_qvel or everything else [],
        ctrl=ctrl.tolist() if request.include_ctrl or everything else [],
        time=world.time(),
        frame_number=world.frame_number(),
    )
    return GetFullStateResponse(True, "", state, joints.tolist(), actuators.tolist())


def _has_conditions(wanted: StateFilter) -> bool:
    return bool(
        wanted.include_only_policy_claimed_joints or wanted.include_only_unclaimed_joints or wanted.filter_by_slot_id
    )


def _problem(world: MujocoWorlds, wanted: StateFilter | None) -> str:
    slots = world.controllers.of(SHOWN).slots
    if wanted is None or not wanted.filter_by_slot_id or wanted.filter_by_slot_id in slots:
        return ""
    return f"filter_by_slot_id {wanted.filter_by_slot_id}: there are slots {', '.join(map(str, slots))}"


def _passing(world: MujocoWorlds, wanted: StateFilter) -> NDArray[np.bool_]:
    """Return bool (njnt,): the joints that pass. A slot's are those it drives, or would if it were active."""
    model, owned = world.model_of(SHOWN), _owners(world) != 0
    actuated = np.zeros(model.njnt, np.bool_)
    actuated[model.actuator_trnid[:, 0]] = True
    passing = np.zeros(model.njnt, np.bool_)
    if wanted.include_only_policy_claimed_joints:
        passing |= owned
    if wanted.include_only_unclaimed_joints:
        passing |= ~owned & ~(actuated & world.agent_drives[SHOWN])
    if wanted.filter_by_slot_id:
        driven = world.controllers.of(SHOWN).slots[wanted.filter_by_slot_id].driven
        passing[model.actuator_trnid[list(driven), 0]] = True
    return passing


def _places(model: Model, joints: NDArray[np.intp], what: int) -> list[int]:
    """Return where the values of `joints` lie in qpos (`what` 0) or qvel (1)."""
    first = (model.jnt_qposadr, model.jnt_dofadr)[what]
    return [
        int(first[joint]) + offset
        for joint in joints
        for offset in range(_SIZES[MjJointType(int(model.jnt_type[joint]))][what])
    ]


#: A gain below this is none: a torque policy owns the actuator.
_NO_GAIN = 1e-6


def control_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""

    def set_control(request: SetControlRequest) -> SetControlResponse:
        return _set_control(world, request)

    def set_qpos(request: SetQposRequest) -> SetQposResponse:
        return SetQposResponse(True, "", _set_qpos(world, request))

    def gains(_: GetActuatorGainsRequest) -> GetActuatorGainsResponse:
        return GetActuatorGainsResponse(True, "", _gains(world))

    def reset(request: ResetSceneRequest) -> ResetSceneResponse:
        _reset(world, preserve_time=request.preserve_time)
        return ResetSceneResponse(True)

    return {
        _PREFIX + "SetControl": answered(set_control, lambda text: SetControlResponse(False, text)),
        _PREFIX + "SetQpos": answered(set_qpos, lambda text: SetQposResponse(False, text)),
        _PREFIX + "GetActuatorGains": gains,
        _PREFIX + "ResetScene": reset,
    }


def _set_control(world: MujocoWorlds, request: SetControlRequest) -> SetControlResponse:
    """Hold controls until a step with actions, a reset or ResetScene; writes all values or, where one is wrong, none.

    Actuators that an agent or an active slot owns are left alone and named in the answer.
    """
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
