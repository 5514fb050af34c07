"""Messages of AgentService: robot controllers and their slots, and with them all that steers what runs in a slot.

Policies are in `policies`, their commands in `policy_commands`, motion graphs in `motion_graph`; all are offered here
too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.empty import no_items
from lucky_transport.messages.geometry import EntityId
from lucky_transport.messages.motion_graph import (
    FireMotionGraphTriggerRequest,
    GetMotionGraphActiveRequest,
    GetMotionGraphActiveResponse,
    GetMotionGraphInputRequest,
    GetMotionGraphInputResponse,
    MotionGraphInputValue,
    SetMotionGraphActiveRequest,
    SetMotionGraphInputRequest,
)
from lucky_transport.messages.policies import (
    ClearPolicyGainsRequest,
    GetPolicyBasePoseRequest,
    GetPolicyLastActionRequest,
    JointGainOverride,
    ListPolicyDescriptorsRequest,
    ListPolicyDescriptorsResponse,
    PolicyBasePose,
    PolicyLastAction,
    PolicyObservationField,
    PolicyOperationAck,
    PolicyRegistryEntry,
    SetPolicyActiveRequest,
    SetPolicyClampObservationRequest,
    SetPolicyDescriptorRequest,
    SetPolicyDrivenJointsRequest,
    SetPolicyGainsRequest,
    SetPolicyPriorityRequest,
)
from lucky_transport.messages.policy_commands import (
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    PolicyCommandBoolValue,
    PolicyCommandFloatValue,
    PolicyCommandIdEntry,
    PolicyCommandType,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
)
from lucky_transport.messages.scalars import I32, U32

__all__ = [
    "ClearPolicyGainsRequest",
    "FireMotionGraphTriggerRequest",
    "GetMotionGraphActiveRequest",
    "GetMotionGraphActiveResponse",
    "GetMotionGraphInputRequest",
    "GetMotionGraphInputResponse",
    "GetPolicyBasePoseRequest",
    "GetPolicyCommandBoolRequest",
    "GetPolicyCommandFloatRequest",
    "GetPolicyLastActionRequest",
    "GetRobotControllerRequest",
    "GetRobotControllerResponse",
    "JointGainOverride",
    "ListPolicyDescriptorsRequest",
    "ListPolicyDescriptorsResponse",
    "ListRobotControllersRequest",
    "ListRobotControllersResponse",
    "MotionGraphInputValue",
    "PolicyBasePose",
    "PolicyCommandBoolValue",
    "PolicyCommandFloatValue",
    "PolicyCommandIdEntry",
    "PolicyCommandType",
    "PolicyLastAction",
    "PolicyObservationField",
    "PolicyOperationAck",
    "PolicyRegistryEntry",
    "PolicySlotSummary",
    "RobotControllerSummary",
    "SetMotionGraphActiveRequest",
    "SetMotionGraphInputRequest",
    "SetPolicyActiveRequest",
    "SetPolicyClampObservationRequest",
    "SetPolicyCommandBoolRequest",
    "SetPolicyCommandFloatRequest",
    "SetPolicyDescriptorRequest",
    "SetPolicyDrivenJointsRequest",
    "SetPolicyGainsRequest",
    "SetPolicyPriorityRequest",
    "StreamPolicySlotStateRequest",
    "StreamRobotControllerRequest",
]


@dataclass(slots=True)
class PolicySlotSummary:
    """One slot of a robot controller and the policy in it.

    driven_joints: exact names. clamp_observation_for_unclaimed_joints: the policy sees joints it does not drive at
    their defaults. ready: the policy is loaded and can run. command_id_map: the commands it understands.
    policy_joint_names: its joints in its own order.
    """

    slot_id: U32 = 0
    name: str = ""
    descriptor_path: str = ""
    active: bool = False
    priority: I32 = 0
    driven_joints: list[str] = field(default_factory=no_items)
    clamp_observation_for_unclaimed_joints: bool = False
    ready: bool = False
    active_policy_id: str = ""
    command_id_map: list[PolicyCommandIdEntry] = field(default_factory=no_items)
    policy_joint_names: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class RobotControllerSummary:
    """One robot, whether its motion graph is on, and its slots."""

    entity: EntityId | None = None
    entity_name: str = ""
    motion_graph_active: bool = False
    slots: list[PolicySlotSummary] = field(default_factory=no_items)


@dataclass(slots=True)
class ListRobotControllersRequest:
    """Asks for all robots that have a controller."""


@dataclass(slots=True)
class ListRobotControllersResponse:
    """All robots that have a controller, in the engine's order."""

    controllers: list[RobotControllerSummary] = field(default_factory=no_items)


@dataclass(slots=True)
class GetRobotControllerRequest:
    """Asks for one robot's controller."""

    entity: EntityId | None = None


@dataclass(slots=True)
class GetRobotControllerResponse:
    """The controller; `found` is False where the entity is no robot."""

    found: bool = False
    controller: RobotControllerSummary | None = None


@dataclass(slots=True)
class StreamPolicySlotStateRequest:
    """Asks for one slot's state at `target_fps` messages per second of wall clock (0 = the engine's default).

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    target_fps: U32 = 0


@dataclass(slots=True)
class StreamRobotControllerRequest:
    """Asks for one robot's controller at `target_fps` messages per second of wall clock (0 = the engine's default)."""

    entity: EntityId | None = None
    target_fps: U32 = 0
