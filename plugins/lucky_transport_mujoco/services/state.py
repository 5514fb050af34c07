"""MujocoService, MujocoSceneService and TelemetryService: model, state, controls and gains, and direct writes to them.

The scene and telemetry are of the shown world, joints of each robot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import LocalProtocolError, SpecError, UnknownName
from lucky_transport.host.task import agent_index
from lucky_transport_mujoco.bindings import Model, mj
from lucky_transport_mujoco.physics import FARTHEST_M
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.services.service import Service, sampled, unknown_name
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

#: Kind of joint -> (values in qpos, values in qvel).
_SIZES = {
    m.MjJointType.FREE: (7, 6),
    m.MjJointType.BALL: (4, 3),
    m.MjJointType.SLIDE: (1, 1),
    m.MjJointType.HINGE: (1, 1),
}

#: A gain below this is none: a torque policy owns the actuator.
_NO_GAIN = 1e-6


class SceneStateService(Service):
    """What is read; see the module."""

    service = "MujocoSceneService"

    def get_model_info(self, _: m.GetModelInfoRequest) -> m.GetModelInfoResponse:
        world = self.world
        model, owners = world.model_of(SHOWN), _owners(world)
        agent = bool(world.agent_drives[SHOWN])
        joints = [
            m.JointDescriptor(
                index=joint,
                name=mj.mj_id2name(model, mj.mjtObj.mjOBJ_JOINT, joint),
                type=m.MjJointType(int(model.jnt_type[joint])),
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
            m.ActuatorDescriptor(
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
        return m.GetModelInfoResponse(True, "", model.nq, model.nv, model.nu, model.njnt, joints, actuators)

    def get_full_state(self, request: m.GetFullStateRequest | m.StreamFullStateRequest) -> m.GetFullStateResponse:
        """The vectors asked for, or all, of the joints that meet a condition of the filter, if it has any."""
        world = self.world
        model, wanted = world.model_of(SHOWN), request.filter
        qpos, qvel, ctrl = world.qpos(), world.qvel(), world.ctrl[SHOWN]
        joints, actuators = np.zeros(0, np.intp), np.zeros(0, np.intp)
        if wanted is not None and any(getattr(wanted, item.name) for item in fields(wanted)):
            joints = np.flatnonzero(_passing(world, wanted))
            actuators = np.flatnonzero(np.isin(model.actuator_trnid[:, 0], joints))
            qpos, qvel, ctrl = qpos[_places(model, joints, 0)], qvel[_places(model, joints, 1)], ctrl[actuators]
        everything = not (request.include_qpos or request.include_qvel or request.include_ctrl)
        state = m.FullState(
            qpos=qpos.tolist() if request.include_qpos or everything else [],
            qvel=qvel.tolist() if request.include_qvel or everything else [],
            ctrl=ctrl.tolist() if request.include_ctrl or everything else [],
            time=world.time(),
            frame_number=world.frame_number(),
        )
        return m.GetFullStateResponse(True, "", state, joints.tolist(), actuators.tolist())

    def stream_full_state(self, request: m.StreamFullStateRequest, call: Call) -> Iterator[m.GetFullStateResponse]:
        return sampled(call, request.target_fps, lambda: self.get_full_state(request))

    def get_actuator_gains(self, _: m.GetActuatorGainsRequest) -> m.GetActuatorGainsResponse:
        model = self.world.model_of(SHOWN)
        names, gains, biases = self.world.robot.actuator_names, model.actuator_gainprm[:, 0], model.actuator_biasprm
        rows = zip(names, gains, biases[:, 0], strict=True)
        return m.GetActuatorGainsResponse(
            True,
            "",
            [
                m.ActuatorGainInfo(index, name, float(gain), float(bias), abs(float(gain)) < _NO_GAIN)
                for index, (name, gain, bias) in enumerate(rows)
            ],
        )


def _owners(world: MujocoWorlds) -> NDArray[np.uint32]:
    """Return uint32 (njnt,): the slot that drives each joint of the shown model, 0 where none does."""
    model = world.model_of(SHOWN)
    out = np.zeros(model.njnt, np.uint32)
    out[model.actuator_trnid[:, 0]] = world.controllers.of(SHOWN).claims
    return out


def _passing(world: MujocoWorlds, wanted: m.StateFilter) -> NDArray[np.bool_]:
    """Return bool (njnt,): the joints that pass. A slot's are those it drives, or would if it were active."""
    model, owned, slots = world.model_of(SHOWN), _owners(world) != 0, world.controllers.of(SHOWN).slots
    passing = np.zeros(model.njnt, np.bool_)
    if wanted.include_only_policy_claimed_joints:
        passing |= owned
    if wanted.include_only_unclaimed_joints:
        actuated = np.isin(np.arange(model.njnt), model.actuator_trnid[:, 0])
        passing |= ~owned & ~(actuated & world.agent_drives[SHOWN])
    if wanted.filter_by_slot_id:
        if wanted.filter_by_slot_id not in slots:
            raise UnknownName(
                f"filter_by_slot_id {wanted.filter_by_slot_id}: there are slots {', '.join(map(str, slots))}"
            )
        passing[model.actuator_trnid[list(slots[wanted.filter_by_slot_id].driven), 0]] = True
    return passing


def _places(model: Model, joints: NDArray[np.intp], what: int) -> list[int]:
    """Return where the values of `joints` lie in qpos (`what` 0) or qvel (1)."""
    first = (model.jnt_qposadr, model.jnt_dofadr)[what]
    return [
        int(first[joint]) + offset
        for joint in joints
        for offset in range(_SIZES[m.MjJointType(int(model.jnt_type[joint]))][what])
    ]


class SceneControlService(Service):
    """What is written."""

    service = "MujocoSceneService"

    def set_control(self, request: m.SetControlRequest) -> m.SetControlResponse:
        """Hold controls until a step with actions, a reset or ResetScene; writes all values or, where one is wrong,
        none. Actuators that an agent or an active slot owns are left alone and named in the answer.
        """
        world = self.world
        model, names = world.model_of(SHOWN), world.robot.actuator_names
        wanted = self._controls(request)
        owned = (world.controllers.of(SHOWN).claims != 0) | world.agent_drives[SHOWN]
        rejected = [names[actuator] for actuator in sorted(wanted) if owned[actuator]]
        written = {actuator: value for actuator, value in wanted.items() if not owned[actuator]}
        for actuator, value in written.items():
            if model.actuator_ctrllimited[actuator] and not request.skip_range_clamp:
                value = float(np.clip(value, *model.actuator_ctrlrange[actuator]))
            world.ctrl[SHOWN, actuator] = value
            world.driving.hold(SHOWN, actuator, value)
        return m.SetControlResponse(True, "", len(written), rejected)

    def _controls(self, request: m.SetControlRequest) -> dict[int, float]:
        """Return the value wanted for each actuator: bulk, then indexed, then named."""
        names = self.world.robot.actuator_names
        values: dict[int, float] = dict(enumerate(request.bulk[: len(names)]))  # values past the last are ignored
        for entry in request.indexed:
            if entry.actuator_index >= len(names):
                raise SpecError(f"actuator_index {entry.actuator_index}: expected 0 to {len(names) - 1}")
            values[entry.actuator_index] = entry.value
        for named in request.named:
            if named.actuator_name not in names:
                raise unknown_name("no actuator", named.actuator_name, names)
            values[names.index(named.actuator_name)] = named.value
        for actuator, value in values.items():
            if not math.isfinite(value):
                raise SpecError(f"the control of actuator {names[actuator]!r} is {value}; expected a finite number")
        return values

    def set_qpos(self, request: m.SetQposRequest) -> m.SetQposResponse:
        if self.world.agent_drives[SHOWN] and not request.force:
            raise LocalProtocolError(
                "an agent drives agent_0: moving it would corrupt the episode; set force to do it all the same"
            )
        qpos = self.world.qpos()
        moved, places = _positions(qpos, request)
        within = np.abs(moved) < FARTHEST_M  # not so for NaN
        if not within.all():
            wrong = int(np.argmin(within))
            raise SpecError(f"qpos[{wrong}] {moved[wrong]}: expected a number from {-FARTHEST_M:g} to {FARTHEST_M:g}")
        length = float(np.linalg.norm(moved[3:7]))
        if length < 1e-6:
            raise SpecError(f"qpos[3:7] {moved[3:7].tolist()} is no orientation; expected a unit quaternion w x y z")
        if abs(length - 1) > 1e-6:  # float32 rounding alone would shift a good one
            moved[3:7] /= length
        qpos[:] = moved
        if not request.skip_policy_reseed:
            self.world.controllers.of(SHOWN).begin()
        return m.SetQposResponse(True, "", places)

    def reset_scene(self, request: m.ResetSceneRequest) -> None:
        """Put the robot into the standing pose of keyframe 0, on the ground it has; policies go on from there."""
        world, seconds = self.world, self.world.time()
        world.randomization.stand(SHOWN)
        if request.preserve_time:
            world.physics.times[SHOWN] = seconds
        world.ctrl[SHOWN] = 0
        world.driving.release(np.array([SHOWN]))
        world.controllers.of(SHOWN).begin()


def _positions(qpos: NDArray[np.float64], request: m.SetQposRequest) -> tuple[NDArray[np.float64], int]:
    """Return the positions wanted, and how many values the request gave for them."""
    if request.bulk and len(request.bulk) != qpos.size:
        raise SpecError(f"bulk of {len(request.bulk)} values: expected {qpos.size}, the whole qpos")
    moved = np.array(request.bulk, np.float64) if request.bulk else qpos.copy()
    places = set(range(len(request.bulk)))
    for entry in request.indexed:
        if entry.qpos_index >= qpos.size:
            raise SpecError(f"qpos_index {entry.qpos_index}: expected 0 to {qpos.size - 1}")
        moved[entry.qpos_index] = entry.value
        places.add(entry.qpos_index)
    return moved, len(places)


_BASE = ("base/x", "base/y", "base/z", "base/qw", "base/qx", "base/qy", "base/qz")


class TelemetryService(Service):
    """Positions and controls of the shown world, with their names."""

    service = "TelemetryService"

    def get_telemetry_schema(self, _: m.GetTelemetrySchemaRequest) -> m.GetTelemetrySchemaResponse:
        robot = self.world.robot
        names, actuators = [*_BASE, *robot.joint_names], list(robot.actuator_names)
        return m.GetTelemetrySchemaResponse(m.TelemetrySchema(names, actuators, robot.nq, robot.nu))

    def stream_telemetry(self, request: m.StreamTelemetryRequest, call: Call) -> Iterator[m.TelemetryFrame]:
        return sampled(call, request.target_fps, self._frame)

    def _frame(self) -> m.TelemetryFrame:
        return m.TelemetryFrame(
            timestamp_ms=time.time_ns() // 1_000_000,
            frame_number=self.world.frame_number() & 0xFFFF_FFFF,
            task_index=0,  # one task per engine
            observation_qpos=self.world.qpos().tolist(),
            action_ctrl=self.world.ctrl[SHOWN].tolist(),
        )


class JointService(Service):
    """The model's facts, and the joints of each robot."""

    service = "MujocoService"

    def get_mujoco_info(self, request: m.GetMujocoInfoRequest) -> m.GetMujocoInfoResponse:
        self._env(request.robot_name)
        robot = self.world.robot
        joints, actuators = list(robot.joint_names), list(robot.actuator_names)
        return m.GetMujocoInfoResponse(True, "", robot.nq, robot.nv, robot.nu, joints, actuators)

    def get_joint_state(self, request: m.GetJointStateRequest) -> m.GetJointStateResponse:
        env, robot = self._env(request.robot_name), self.world.robot
        positions, velocities = self.world.qpos(env).tolist(), self.world.qvel(env).tolist()
        return m.GetJointStateResponse(True, "", m.JointState(positions, velocities, robot.nq, robot.nv))

    def stream_joint_state(self, request: m.GetJointStateRequest, call: Call) -> Iterator[m.GetJointStateResponse]:
        return sampled(call, 0, lambda: self.get_joint_state(request))

    def _env(self, robot_name: str) -> int:
        env = 0 if robot_name == NAME else agent_index(self.world.spec, robot_name)
        if env < 0:
            last = self.world.num_envs - 1
            raise UnknownName(f"no robot {robot_name!r}; there are {NAME!r} and agent_0 to agent_{last}")
        return env
