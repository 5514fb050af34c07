"""MujocoService and TelemetryService: model facts, joint state, positions and controls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    GetJointStateRequest,
    GetJointStateResponse,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
    GetTelemetrySchemaRequest,
    GetTelemetrySchemaResponse,
    JointState,
    StreamTelemetryRequest,
    TelemetryFrame,
    TelemetrySchema,
)
from lucky_transport_mujoco.lookup import rate_hz
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

_TELEMETRY = "/hazel.rpc.TelemetryService/"
_BASE = ("base/x", "base/y", "base/z", "base/qw", "base/qx", "base/qy", "base/qz")


def telemetry_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handler, by full method name."""
    robot = world.robot

    def schema(_: GetTelemetrySchemaRequest) -> GetTelemetrySchemaResponse:
        names, actuators = [*_BASE, *robot.joint_names], list(robot.actuator_names)
        return GetTelemetrySchemaResponse(TelemetrySchema(names, actuators, robot.nq, robot.nu))

    return {_TELEMETRY + "GetTelemetrySchema": schema}


def telemetry_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the stream's handler, by full method name."""

    def stream(request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        for _ in call.ticks(rate_hz(request.target_fps)):
            with call.between_steps():
                frame = TelemetryFrame(
                    timestamp_ms=time.time_ns() // 1_000_000,
                    frame_number=world.frame_number() & 0xFFFF_FFFF,
                    task_index=0,  # one task per engine
                    observation_qpos=world.qpos().tolist(),
                    action_ctrl=world.ctrl[SHOWN].tolist(),
                )
            yield frame

    return {_TELEMETRY + "StreamTelemetry": stream}


_MUJOCO = "/hazel.rpc.MujocoService/"


def joint_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""
    robot = world.robot

    def info(request: GetMujocoInfoRequest) -> GetMujocoInfoResponse:
        if _env(world, request.robot_name) < 0:
            return GetMujocoInfoResponse(False, _unknown(world, request.robot_name))
        joints, actuators = list(robot.joint_names), list(robot.actuator_names)
        return GetMujocoInfoResponse(True, "", robot.nq, robot.nv, robot.nu, joints, actuators)

    def state(request: GetJointStateRequest) -> GetJointStateResponse:
        return _state(world, request.robot_name)

    return {_MUJOCO + "GetMujocoInfo": info, _MUJOCO + "GetJointState": state}


def joint_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the stream's handler, by full method name."""

    def stream(request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _ in call.ticks(rate_hz(0)):
            with call.between_steps():
                item = _state(world, request.robot_name)
            yield item
            if not item.success:
                return

    return {_MUJOCO + "StreamJointState": stream}


def _state(world: MujocoWorlds, robot_name: str) -> GetJointStateResponse:
    env = _env(world, robot_name)
    if env < 0:
        return GetJointStateResponse(False, _unknown(world, robot_name))
    robot = world.robot
    state = JointState(world.qpos(env).tolist(), world.qvel(env).tolist(), robot.nq, robot.nv)
    return GetJointStateResponse(True, "", state)


def _env(world: MujocoWorlds, robot_name: str) -> int:
    """Return the env of the robot of that name, -1 when there is none."""
    return 0 if robot_name == NAME else agent_index(world.spec, robot_name)


def _unknown(world: MujocoWorlds, robot_name: str) -> str:
    return f"no robot {robot_name!r}; there are {NAME!r} and agent_0 to agent_{world.num_envs - 1}"
