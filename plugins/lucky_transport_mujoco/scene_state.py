"""MujocoSceneService: the model of the shown world and its state, whole or filtered.

Vectors that are not asked for are empty; when none is asked for, all are sent. A joint passes a filter when one of its
conditions holds for it; a filter without conditions is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.messages import (
    ActuatorDescriptor,
    FullState,
    GetFullStateRequest,
    GetFullStateResponse,
    GetModelInfoRequest,
    GetModelInfoResponse,
    JointDescriptor,
    MjJointType,
    StateFilter,
    StreamFullStateRequest,
)
from lucky_transport_mujoco.bindings import Model, mj
from lucky_transport_mujoco.rates import rate_hz
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

__all__ = ["scene_state_handlers", "scene_state_streams"]

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
