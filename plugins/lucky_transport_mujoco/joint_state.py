"""MujocoService: the facts of a robot's model and its joint state, as an answer and as a stream.

A robot is named as its agent is; the kind of robot, or no name, means agent_0's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    GetJointStateRequest,
    GetJointStateResponse,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
    JointState,
)
from lucky_transport_mujoco.rates import rate_hz
from lucky_transport_mujoco.robot import NAME
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["joint_handlers", "joint_streams"]

_PREFIX = "/hazel.rpc.MujocoService/"


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

    return {_PREFIX + "GetMujocoInfo": info, _PREFIX + "GetJointState": state}


def joint_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the stream's handler, by full method name."""

    def stream(request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _ in call.ticks(rate_hz(0)):
            with call.between_steps():
                item = _state(world, request.robot_name)
            yield item
            if not item.success:
                return

    return {_PREFIX + "StreamJointState": stream}


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
