"""MuJoCo state of one robot, restricted to the joints that its agent declares.

Generated from proto/mujoco.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import F32, U32, no_items

__all__ = [
    "GetJointStateRequest",
    "GetJointStateResponse",
    "GetMujocoInfoRequest",
    "GetMujocoInfoResponse",
    "JointState",
]


@dataclass(slots=True)
class JointState:
    """Generalised positions [nq] and velocities [nv], in MuJoCo's order and units."""

    positions: list[F32] = field(default_factory=no_items)  # [nq]
    velocities: list[F32] = field(default_factory=no_items)  # [nv]
    nq: U32 = 0
    nv: U32 = 0


@dataclass(slots=True)
class GetJointStateRequest:
    """Asks for a robot's joint state; "" means `agent_0`'s robot."""

    robot_name: str = ""


@dataclass(slots=True)
class GetJointStateResponse:
    """The joint state, or why there is none."""

    success: bool = False
    message: str = ""
    state: JointState | None = None


@dataclass(slots=True)
class GetMujocoInfoRequest:
    """Asks for the model's sizes and names."""

    robot_name: str = ""


@dataclass(slots=True)
class GetMujocoInfoResponse:
    """Sizes and names of the MuJoCo model."""

    success: bool = False
    message: str = ""
    nq: U32 = 0  # position coordinates
    nv: U32 = 0  # degrees of freedom
    nu: U32 = 0  # actuators
    joint_names: list[str] = field(default_factory=no_items)
    actuator_names: list[str] = field(default_factory=no_items)  # known engines repeat the joint names here
