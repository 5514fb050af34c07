"""The typed methods of the robot: its manifest, its MuJoCo facts and its joint state.

Rule 1: what follows from the spec alone comes from `lucky_transport.host.task`; here is only what the robot adds.
Rule 2: a refused request answers success=False with the value and what would do, it never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lucky_transport.engine import Handler
from lucky_transport.host.task import agent_index, task_handlers
from lucky_transport.messages import mujoco, task
from lucky_transport.specs import BatchSpec
from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.contract import DEFAULTS, QUANTITIES, Quantity
from lucky_transport_mujoco.physics import Physics
from lucky_transport_mujoco.robot import NAME, Robot
from lucky_transport_mujoco.task import REWARDS, TERMINATIONS

__all__ = ["robot_handlers"]

_MANIFEST = "/hazel.rpc.AgentService/GetCapabilityManifest"
_MUJOCO = "/hazel.rpc.MujocoService/"


def robot_handlers(spec: BatchSpec, robot: Robot, physics: Physics, action_scale: float) -> Mapping[str, Handler]:
    """Return the handlers, by full method name."""
    plain = task_handlers(spec)[_MANIFEST]

    def manifest(request: task.GetCapabilityManifestRequest) -> task.GetCapabilityManifestResponse:
        return _with_robot(plain(request), robot, action_scale)

    def mujoco_info(request: mujoco.GetMujocoInfoRequest) -> mujoco.GetMujocoInfoResponse:
        if _env(spec, request.robot_name) < 0:
            return mujoco.GetMujocoInfoResponse(False, _unknown(spec, request.robot_name))
        joints, actuators = list(robot.joint_names), list(robot.actuator_names)
        return mujoco.GetMujocoInfoResponse(True, "", robot.nq, robot.nv, robot.nu, joints, actuators)

    def joint_state(request: mujoco.GetJointStateRequest) -> mujoco.GetJointStateResponse:
        env = _env(spec, request.robot_name)
        if env < 0:
            return mujoco.GetJointStateResponse(False, _unknown(spec, request.robot_name))
        state = mujoco.JointState(physics.qpos[env].tolist(), physics.qvel[env].tolist(), robot.nq, robot.nv)
        return mujoco.GetJointStateResponse(True, "", state)

    return {_MANIFEST: manifest, _MUJOCO + "GetMujocoInfo": mujoco_info, _MUJOCO + "GetJointState": joint_state}


def _env(spec: BatchSpec, robot_name: str) -> int:
    """Return the env of the robot called `robot_name`: the kind of robot ("" too) means agent_0's."""
    return 0 if robot_name == NAME else agent_index(spec, robot_name)


def _unknown(spec: BatchSpec, robot_name: str) -> str:
    return f"no robot {robot_name!r}; there are {NAME!r} and agent_0 to agent_{spec.num_envs - 1}"


def _with_robot(
    plain: task.GetCapabilityManifestResponse, robot: Robot, action_scale: float
) -> task.GetCapabilityManifestResponse:
    manifest = plain.manifest or task.EngineCapabilityManifest()
    summaries = {term.name: term.summary for term in (*REWARDS, *TERMINATIONS)}
    for component in (*manifest.rewards, *manifest.terminations):
        component.description = summaries[component.name]
    joints = zip(robot.joint_low, robot.joint_high, robot.joint_home, strict=True)
    about = task.MdpRobotInfo(
        name=NAME,
        joint_names=list(robot.joint_names),
        actuator_names=list(robot.actuator_names),
        actuator_limits=[task.MdpActuatorLimit(float(a), float(b), float(c), action_scale) for a, b, c in joints],
        body_names=list(robot.body_names),
        sensor_names=list(robot.sensor_names),
        available_scenes=list(terrain.NAMES),
    )
    randomizations = [_descriptor(quantity) for quantity in QUANTITIES]
    return task.GetCapabilityManifestResponse(replace(manifest, randomizations=randomizations, robot_info=about))


def _descriptor(quantity: Quantity) -> task.MdpRandomizationDescriptor:
    """Describe one quantity; its default range is what holds while a client has sent no contract."""
    default = getattr(DEFAULTS, quantity.name)
    values = (default if isinstance(default, list) else [default]) or [quantity.nominal]
    low, high = (0.0 if quantity.kind == "noise" else values[0]), values[-1]
    param = task.MdpParamDescriptor(
        type="float" if quantity.count == 0 else f"float[{quantity.count}]",
        default_value=str(default),
        description=f"{quantity.kind} in {quantity.unit}" if quantity.unit else quantity.kind,
        range_min=quantity.least,
        range_max=quantity.most,
        has_range=True,
    )
    base = task.MdpComponentDescriptor(
        name=quantity.name,
        description=quantity.summary,
        category="randomization",
        params_schema={quantity.name: param},
        output_shape=[max(quantity.count, 1)],
    )
    return task.MdpRandomizationDescriptor(base, low, high, quantity.target)
