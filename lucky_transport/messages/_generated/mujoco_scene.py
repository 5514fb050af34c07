"""The whole loaded MuJoCo model: its description, its full state, and direct writes to it.

Generated from proto/mujoco_scene.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages.scalars import F32, F64, I32, U32, U64, no_items

__all__ = [
    "ActuatorDescriptor",
    "ActuatorGainInfo",
    "FullState",
    "GetActuatorGainsRequest",
    "GetActuatorGainsResponse",
    "GetFullStateRequest",
    "GetFullStateResponse",
    "GetModelInfoRequest",
    "GetModelInfoResponse",
    "IndexedControlEntry",
    "IndexedQposEntry",
    "JointDescriptor",
    "MjJointType",
    "NamedControlEntry",
    "ResetSceneRequest",
    "ResetSceneResponse",
    "SetControlRequest",
    "SetControlResponse",
    "SetQposRequest",
    "SetQposResponse",
    "StateFilter",
    "StreamFullStateRequest",
]


class MjJointType(IntEnum):
    """Kind of a joint, numbered as MuJoCo's mjtJoint. In qpos it takes 7, 4, 1 and 1 values, in qvel 6, 3, 1 and 1."""

    FREE = 0
    BALL = 1
    SLIDE = 2
    HINGE = 3
    UNKNOWN = 99


@dataclass(slots=True)
class JointDescriptor:
    """One joint of the model and what drives it.

    qpos_adr, qvel_adr: its first index in qpos and qvel. range_lo, range_hi: radians or metres, valid where `limited`.
    claimed_by_policy_slot_id: the slot that drives it, 0 = none.
    """

    index: U32 = 0
    name: str = ""
    type: Annotated[MjJointType, "i32"] = MjJointType.FREE
    qpos_adr: U32 = 0
    qvel_adr: U32 = 0
    limited: bool = False
    range_lo: F32 = 0.0
    range_hi: F32 = 0.0
    claimed_by_policy_slot_id: U32 = 0
    claimed_by_rl_agent: bool = False


@dataclass(slots=True)
class ActuatorDescriptor:
    """One actuator of the model and what drives it.

    ctrl_range_lo, ctrl_range_hi: in the unit of its control, valid where `ctrl_limited`. target_joint_index: -1 where
    it does not act on a joint. claimed_by_policy_slot_id: the slot that drives it, 0 = none.
    """

    index: U32 = 0
    name: str = ""
    ctrl_limited: bool = False
    ctrl_range_lo: F32 = 0.0
    ctrl_range_hi: F32 = 0.0
    target_joint_index: I32 = 0
    claimed_by_policy_slot_id: U32 = 0
    claimed_by_rl_agent: bool = False


@dataclass(slots=True)
class GetModelInfoRequest:
    """Asks for the whole model's description."""


@dataclass(slots=True)
class GetModelInfoResponse:
    """Sizes, joints and actuators of the whole model, in MuJoCo's order, or why there is none."""

    success: bool = False
    message: str = ""
    nq: U32 = 0
    nv: U32 = 0
    nu: U32 = 0
    njnt: U32 = 0
    joints: list[JointDescriptor] = field(default_factory=no_items)
    actuators: list[ActuatorDescriptor] = field(default_factory=no_items)


@dataclass(slots=True)
class FullState:
    """A snapshot of the whole model, in MuJoCo's order and units; what was not asked for is empty.

    qpos: [nq], qvel: [nv], ctrl: [nu], or what the filter left of them. time: simulated seconds.
    """

    qpos: list[F32] = field(default_factory=no_items)
    qvel: list[F32] = field(default_factory=no_items)
    ctrl: list[F32] = field(default_factory=no_items)
    time: F64 = 0.0
    frame_number: U64 = 0


@dataclass(slots=True)
class GetFullStateRequest:
    """Asks for parts of the state, all three when none is named; an absent `filter` means the whole model."""

    include_qpos: bool = False
    include_qvel: bool = False
    include_ctrl: bool = False
    filter: StateFilter | None = None


@dataclass(slots=True)
class GetFullStateResponse:
    """The state, or why there is none; the indices say what a filter left and are empty without one."""

    success: bool = False
    message: str = ""
    state: FullState | None = None
    included_joint_indices: list[U32] = field(default_factory=no_items)  # empty without a filter
    included_actuator_indices: list[U32] = field(default_factory=no_items)  # empty without a filter


@dataclass(slots=True)
class StreamFullStateRequest:
    """As GetFullStateRequest, `target_fps` times per second of wall clock (0 = the engine's default)."""

    target_fps: U32 = 0
    include_qpos: bool = False
    include_qvel: bool = False
    include_ctrl: bool = False
    filter: StateFilter | None = None


@dataclass(slots=True)
class StateFilter:
    """Narrows a state to joints that policies drive, that nothing drives, or that one slot drives (0 = none)."""

    include_only_policy_claimed_joints: bool = False
    include_only_unclaimed_joints: bool = False
    filter_by_slot_id: U32 = 0  # 0 = do not filter by slot; a joint that fits any of the three stays


@dataclass(slots=True)
class NamedControlEntry:
    """A value for the actuator of that name, in the unit of its control."""

    actuator_name: str = ""
    value: F32 = 0.0


@dataclass(slots=True)
class IndexedControlEntry:
    """A value for the actuator at that index, in the unit of its control."""

    actuator_index: U32 = 0
    value: F32 = 0.0


@dataclass(slots=True)
class SetControlRequest:
    """Sets controls in up to three ways at once; later ones count more: bulk, indexed, named.

    bulk: from actuator 0 on. wait_for_next_step: answer when a step has used the values. skip_range_clamp: take values
    outside the control range as they are.
    """

    bulk: list[F32] = field(default_factory=no_items)
    indexed: list[IndexedControlEntry] = field(default_factory=no_items)
    named: list[NamedControlEntry] = field(default_factory=no_items)
    wait_for_next_step: bool = False
    skip_range_clamp: bool = False


@dataclass(slots=True)
class SetControlResponse:
    """How many values were taken; an unknown index or name refuses all of them.

    rejected_actuators: those that an agent or a policy owns; they are left alone and `success` stays True.
    """

    success: bool = False
    message: str = ""
    actuators_written: U32 = 0
    rejected_actuators: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class IndexedQposEntry:
    """A value for qpos at that index, in radians or metres."""

    qpos_index: U32 = 0
    value: F32 = 0.0


@dataclass(slots=True)
class SetQposRequest:
    """Moves the model to new positions at once; `indexed` counts more than `bulk`.

    bulk: [nq] or empty. force: also where a policy or an agent drives the joint. skip_policy_reseed: leave the targets
    of policies alone, which may pull the robot back.
    """

    bulk: list[F32] = field(default_factory=no_items)
    indexed: list[IndexedQposEntry] = field(default_factory=no_items)
    force: bool = False
    skip_policy_reseed: bool = False


@dataclass(slots=True)
class SetQposResponse:
    """How many values of qpos were written, or why none."""

    success: bool = False
    message: str = ""
    values_written: U32 = 0


@dataclass(slots=True)
class ActuatorGainInfo:
    """Gains of one actuator as they are in force.

    gain_prm_0, bias_prm_0: MuJoCo's gainprm[0] and biasprm[0], in the actuator's units. neutralized: the gain is about
    zero, because a policy drives the joint by torque.
    """

    actuator_index: U32 = 0
    actuator_name: str = ""
    gain_prm_0: F32 = 0.0
    bias_prm_0: F32 = 0.0
    neutralized: bool = False


@dataclass(slots=True)
class GetActuatorGainsRequest:
    """Asks for the gains of all actuators."""


@dataclass(slots=True)
class GetActuatorGainsResponse:
    """The gains of all actuators, in MuJoCo's order, or why there are none."""

    success: bool = False
    message: str = ""
    actuators: list[ActuatorGainInfo] = field(default_factory=no_items)


@dataclass(slots=True)
class ResetSceneRequest:
    """Puts the model back to keyframe 0, or to qpos0 where it has none; velocities, forces and controls become zero.

    preserve_time: simulated time goes on instead of starting at 0.
    """

    preserve_time: bool = False


@dataclass(slots=True)
class ResetSceneResponse:
    """Whether the scene was reset, else why not."""

    success: bool = False
    message: str = ""
