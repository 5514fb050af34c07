"""Messages of AgentService: the policies that run in a controller's slots, and their gains."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.empty import no_entries, no_items
from lucky_transport.messages.geometry import EntityId
from lucky_transport.messages.policy_commands import PolicyCommandIdEntry
from lucky_transport.messages.scalars import F32, I32, U32

__all__ = [
    "ClearPolicyGainsRequest",
    "GetPolicyBasePoseRequest",
    "GetPolicyLastActionRequest",
    "JointGainOverride",
    "ListPolicyDescriptorsRequest",
    "ListPolicyDescriptorsResponse",
    "PolicyBasePose",
    "PolicyLastAction",
    "PolicyObservationField",
    "PolicyOperationAck",
    "PolicyRegistryEntry",
    "SetPolicyActiveRequest",
    "SetPolicyClampObservationRequest",
    "SetPolicyDescriptorRequest",
    "SetPolicyDrivenJointsRequest",
    "SetPolicyGainsRequest",
    "SetPolicyPriorityRequest",
]


@dataclass(slots=True)
class PolicyObservationField:
    """One input of a policy: its type by name, its size in values."""

    name: str = ""
    type: str = ""
    size: U32 = 0


@dataclass(slots=True)
class PolicyRegistryEntry:
    """One policy on offer; a slot takes it by its `descriptor_path`.

    joints: those it drives. freeze_joint_names: those it wants held still. command_aliases: further names of commands.
    """

    policy_id: str = ""
    descriptor_path: str = ""
    joints: list[str] = field(default_factory=no_items)
    command_id_map: list[PolicyCommandIdEntry] = field(default_factory=no_items)
    observation_spec: list[PolicyObservationField] = field(default_factory=no_items)
    freeze_joint_names: list[str] = field(default_factory=no_items)
    command_aliases: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class PolicyOperationAck:
    """Whether the change was made, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class ListPolicyDescriptorsRequest:
    """Asks for all policies on offer."""


@dataclass(slots=True)
class ListPolicyDescriptorsResponse:
    """All policies on offer."""

    policies: list[PolicyRegistryEntry] = field(default_factory=no_items)


@dataclass(slots=True)
class SetPolicyActiveRequest:
    """Starts or stops the policy in a slot.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    active: bool = False


@dataclass(slots=True)
class SetPolicyDescriptorRequest:
    """Puts another policy into a slot; overridden gains are dropped.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    descriptor_path: str = ""


@dataclass(slots=True)
class SetPolicyDrivenJointsRequest:
    """Chooses the joints that a slot drives: exact names, no patterns.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    joint_names: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class SetPolicyClampObservationRequest:
    """Chooses whether a slot's policy sees joints that it does not drive at their defaults.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    clamp_observation_for_unclaimed_joints: bool = False


@dataclass(slots=True)
class SetPolicyPriorityRequest:
    """Sets a slot's priority: where two active slots claim a joint, the higher one drives it.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    priority: I32 = 0


@dataclass(slots=True)
class JointGainOverride:
    """New gains of one joint; None keeps the policy's own value. A joint that the policy does not know is ignored.

    kp: N*m/rad or N/m. kd: N*m*s/rad or N*s/m. effort_limit: N*m or N. action_scale: radians or metres per unit of
    action. default_pos: radians or metres.
    """

    joint_name: str = ""
    kp: F32 | None = None
    kd: F32 | None = None
    effort_limit: F32 | None = None
    action_scale: F32 | None = None
    default_pos: F32 | None = None


@dataclass(slots=True)
class SetPolicyGainsRequest:
    """Overrides gains until ClearPolicyGains or a change of the slot's policy.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    overrides: list[JointGainOverride] = field(default_factory=no_items)


@dataclass(slots=True)
class ClearPolicyGainsRequest:
    """Gives all joints of a slot the policy's own gains again.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0


@dataclass(slots=True)
class GetPolicyBasePoseRequest:
    """Asks where the robot's base is; refused while the slot is inactive.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0


@dataclass(slots=True)
class PolicyBasePose:
    """The base in two frames, or why it is not told: metres and radians.

    x, y, yaw: MuJoCo's frame (x and y on the ground, z up). x_hz, z_hz, yaw_hz: the engine's frame (x and z on the
    ground, y up); "hz" is that frame's name, not a unit.
    """

    success: bool = False
    message: str = ""
    x: F32 = 0.0
    y: F32 = 0.0
    yaw: F32 = 0.0
    x_hz: F32 = 0.0
    z_hz: F32 = 0.0
    yaw_hz: F32 = 0.0


@dataclass(slots=True)
class GetPolicyLastActionRequest:
    """Asks what a slot's policy put out last; refused while the slot is inactive or has not run yet.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0


@dataclass(slots=True)
class PolicyLastAction:
    """What the policy put out when it last ran, one value per joint name, or why there is none."""

    success: bool = False
    message: str = ""
    action: list[F32] = field(default_factory=no_items)
    joint_names: list[str] = field(default_factory=no_items)
