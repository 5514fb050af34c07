"""MujocoService and TelemetryService: model facts, joint state, positions and controls."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import UnknownName
from lucky_transport.host.task import agent_index
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.services.service import Service, sampled
from lucky_transport_mujoco.world import SHOWN

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
