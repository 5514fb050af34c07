"""The training interface: reset and step an agent, agree on a task, and drive the policies that run in the engine.

Generated from proto/agent.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages._generated.common import EntityId, Vec3
from lucky_transport.messages._generated.media import NamedImageFrame
from lucky_transport.messages.scalars import F32, I32, U32, U64, no_entries, no_items, one_of

__all__ = [
    "ActionContract",
    "ActionGroupEntry",
    "ActionGroupSlot",
    "ActionTermRequest",
    "AgentFrame",
    "AgentSchema",
    "AuxiliaryDataRequest",
    "CameraStreamKind",
    "ClearPolicyGainsRequest",
    "ContractValidationMessage",
    "ContractValidationResult",
    "CustomRandomization",
    "EngineCapabilityManifest",
    "FireMotionGraphTriggerRequest",
    "GetAgentSchemaRequest",
    "GetAgentSchemaResponse",
    "GetCameraFrameRequest",
    "GetCapabilityManifestRequest",
    "GetCapabilityManifestResponse",
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
    "MdpActuatorLimit",
    "MdpComponentDescriptor",
    "MdpParamDescriptor",
    "MdpRandomizationDescriptor",
    "MdpRobotInfo",
    "MotionGraphInputValue",
    "NegotiateTaskRequest",
    "NegotiateTaskResponse",
    "NegotiatedTaskSession",
    "ObservationContract",
    "ObservationSlot",
    "ObservationTermRequest",
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
    "ProgressAck",
    "ProgressReport",
    "RandomizationContract",
    "ResetAgentRequest",
    "ResetAgentResponse",
    "RewardContract",
    "RewardTermRequest",
    "RobotControllerSummary",
    "SetActionGroupRequest",
    "SetActionGroupResponse",
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
    "SimulationContract",
    "StepRequest",
    "StepResponse",
    "StreamPolicySlotStateRequest",
    "StreamRobotControllerRequest",
    "TaskContract",
    "TerminationContract",
    "TerminationTermRequest",
    "ValidateTaskContractRequest",
    "ValidateTaskContractResponse",
]


class CameraStreamKind(IntEnum):
    """What an image holds.

    COLOR is RGBA, one byte per channel; DEPTH is one uint16 per pixel, in steps of `depth_scale`.
    """

    COLOR = 0  # RGBA
    DEPTH = 1  # one uint16 per pixel, see ImageFrame.depth_scale


class PolicyCommandType(IntEnum):
    """Type of a policy's command or of a motion graph's input."""

    FLOAT = 0
    BOOL = 1
    INT = 2
    UINT = 3
    VEC2 = 4
    VEC3 = 5
    VEC4 = 6
    STRING = 7


@dataclass(slots=True)
class AgentSchema:
    """Names and sizes of one agent's flat observation and action vectors. A name is a term's, and a term may span
    several values.
    """

    agent_name: str = ""
    observation_names: list[str] = field(default_factory=no_items)
    action_names: list[str] = field(default_factory=no_items)  # empty, or one per action
    observation_size: U32 = 0  # values in AgentFrame.observations
    action_size: U32 = 0  # values in StepRequest.actions


@dataclass(slots=True)
class GetAgentSchemaRequest:
    """Asks for an agent's schema; "" means `agent_0`."""

    agent_name: str = ""  # empty = the default agent, "agent_0"


@dataclass(slots=True)
class GetAgentSchemaResponse:
    """The agent's schema; sizes are 0 while no agent is registered."""

    schema: AgentSchema | None = None


@dataclass(slots=True)
class SimulationContract:
    """Domain randomisation for the next reset. Empty ranges and zeros mean "leave as it is"; ranges are [low, high].

    Noise: a standard deviation in metres, radians, rad/s; friction, mass and motor strength as factors; offsets in
    metres or radians; intervals in seconds; velocities in m/s and rad/s.
    """

    pose_position_noise: list[F32] = field(default_factory=no_items)  # x, y, z
    pose_orientation_noise: F32 = 0.0  # radians
    joint_position_noise: F32 = 0.0
    joint_velocity_noise: F32 = 0.0  # per second
    friction_range: list[F32] = field(default_factory=no_items)  # coefficient
    restitution_range: list[F32] = field(default_factory=no_items)  # coefficient
    mass_scale_range: list[F32] = field(default_factory=no_items)  # factor
    com_offset_range: list[F32] = field(default_factory=no_items)
    motor_strength_range: list[F32] = field(default_factory=no_items)  # factor
    motor_offset_range: list[F32] = field(default_factory=no_items)  # added to the position target
    push_interval_range: list[F32] = field(default_factory=no_items)  # seconds between pushes
    push_velocity_range: list[F32] = field(default_factory=no_items)  # m/s
    terrain_type: str = ""
    terrain_difficulty: F32 = 0.0
    vel_command_x_range: list[F32] = field(default_factory=no_items)  # m/s
    vel_command_y_range: list[F32] = field(default_factory=no_items)  # m/s
    vel_command_yaw_range: list[F32] = field(default_factory=no_items)  # rad/s
    vel_command_resampling_time_range: list[F32] = field(default_factory=no_items)  # seconds between new commands
    vel_command_standing_probability: F32 = 0.0  # 0 to 1


@dataclass(slots=True)
class ResetAgentRequest:
    """Resets one agent; the contract holds until another one is given. The first observation comes with the next
    step.
    """

    agent_name: str = ""  # empty = the default agent
    simulation_contract: SimulationContract | None = None


@dataclass(slots=True)
class ResetAgentResponse:
    """Whether the agent was reset, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class AgentFrame:
    """What one agent observed after a tick.

    timestamp_ms: wall clock, milliseconds since 1970. frame_number: grows by at least one with every tick of an
    episode. observations: [observation_size]. actions: [action_size], as last applied. target_fps: control ticks per
    simulated second.
    """

    timestamp_ms: U64 = 0
    frame_number: U32 = 0
    observations: list[F32] = field(default_factory=no_items)
    actions: list[F32] = field(default_factory=no_items)
    agent_name: str = ""
    target_fps: U32 = 0


@one_of("id", "name")
@dataclass(slots=True)
class GetCameraFrameRequest:
    """An image to be rendered with a step, by camera entity or by name (`id` counts when given).

    width, height: pixels, 0 = the camera's own. format: "raw" or "jpeg"; engines always send raw.
    """

    id: EntityId | None = None
    name: str = ""
    width: U32 = 0
    height: U32 = 0
    format: str = ""
    kind: Annotated[CameraStreamKind, "i32"] = CameraStreamKind.COLOR


@dataclass(slots=True)
class ActionGroupEntry:
    """Action values for a named subset of the action vector's indices."""

    group_name: str = ""
    actions: list[F32] = field(default_factory=no_items)
    action_indices: list[I32] = field(default_factory=no_items)  # where each of actions goes in the full vector


@dataclass(slots=True)
class SetActionGroupRequest:
    """Preloads one group's actions for the agent's next step."""

    agent_name: str = ""
    group: ActionGroupEntry | None = None


@dataclass(slots=True)
class SetActionGroupResponse:
    """Whether the group was accepted, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class StepRequest:
    """One tick of one agent.

    agent_name: "" means `agent_0`. actions: [action_size], or empty: tick without a new action. timeout_s: seconds that
    the engine waits for physics, 0 = its default. action_groups are laid over `actions`.
    """

    agent_name: str = ""
    actions: list[F32] = field(default_factory=no_items)
    timeout_s: F32 = 0.0
    camera_requests: list[GetCameraFrameRequest] = field(default_factory=no_items)
    action_groups: list[ActionGroupEntry] = field(default_factory=no_items)


@dataclass(slots=True)
class StepResponse:
    """What the tick produced; `success` is False when there was none, mostly because physics took too long.

    physics_step_duration_us: microseconds of wall clock. camera_frames: in the order of `camera_requests`.
    reward_signals, termination_flags: by term, unweighted, empty before NegotiateTask; there is no total. terminated:
    the episode ended by the task's rules; truncated: it was cut short. info: further numbers by name.
    """

    success: bool = False
    message: str = ""
    observation: AgentFrame | None = None
    physics_step_duration_us: U64 = 0
    camera_frames: list[NamedImageFrame] = field(default_factory=no_items)
    reward_signals: dict[str, F32] = field(default_factory=no_entries)
    terminated: bool = False
    truncated: bool = False
    info: dict[str, F32] = field(default_factory=no_entries)
    termination_flags: dict[str, bool] = field(default_factory=no_entries)


@dataclass(slots=True)
class ProgressReport:
    """State of a training or evaluation run, for people to see; `elapsed_s` in seconds.

    finished: the run is over, and the engine takes control of the agent back.
    """

    run_id: str = ""
    task_name: str = ""
    policy_name: str = ""
    phase: str = ""
    current_episode: I32 = 0
    total_episodes: I32 = 0
    current_step: I32 = 0
    max_steps: I32 = 0
    elapsed_s: F32 = 0.0
    status_text: str = ""
    finished: bool = False


@dataclass(slots=True)
class ProgressAck:
    """Whether the engine shows the report."""

    accepted: bool = False


@dataclass(slots=True)
class TaskContract:
    """What a task needs from the engine."""

    task_id: str = ""
    robot: str = ""
    scene: str = ""
    observations: ObservationContract | None = None
    actions: ActionContract | None = None
    rewards: RewardContract | None = None
    terminations: TerminationContract | None = None
    randomization: RandomizationContract | None = None
    auxiliary_data: list[AuxiliaryDataRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class ObservationContract:
    """Observation terms a task needs, and those it would like."""

    required: list[ObservationTermRequest] = field(default_factory=no_items)
    optional: list[ObservationTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class ObservationTermRequest:
    """One observation term asked for."""

    name: str = ""
    params: dict[str, str] = field(default_factory=no_entries)
    group: str = ""  # clients of luckyrobots say "policy" if nothing else


@dataclass(slots=True)
class ActionContract:
    """Action terms a task uses."""

    terms: list[ActionTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class ActionTermRequest:
    """One way to act on a set of joints."""

    type: str = ""
    joint_pattern: str = ""  # "*" = all joints
    params: dict[str, str] = field(default_factory=no_entries)
    group: str = ""


@dataclass(slots=True)
class RewardContract:
    """Reward terms computed by the engine and names of those computed in Python."""

    engine_terms: list[RewardTermRequest] = field(default_factory=no_items)
    python_terms: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class RewardTermRequest:
    """One reward term and its weight."""

    name: str = ""
    weight: F32 = 0.0  # the engine reports terms unweighted all the same
    params: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class TerminationContract:
    """Termination terms a task uses."""

    terms: list[TerminationTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class TerminationTermRequest:
    """One termination term; `is_timeout` makes it truncate instead of terminate."""

    name: str = ""
    is_timeout: bool = False
    params: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class RandomizationContract:
    """Randomisation of a task: a serialised SimulationContract and custom ranges."""

    simulation_contract_bytes: bytes = b""  # a serialised SimulationContract
    custom_randomizations: list[CustomRandomization] = field(default_factory=no_items)


@dataclass(slots=True)
class CustomRandomization:
    """A named range to randomise, for engines that know the name."""

    name: str = ""
    range_min: F32 = 0.0
    range_max: F32 = 0.0
    target: str = ""


@dataclass(slots=True)
class AuxiliaryDataRequest:
    """Extra data asked for beside the observation."""

    name: str = ""
    params: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class EngineCapabilityManifest:
    """Everything a task contract may ask this engine for."""

    engine_version: str = ""
    manifest_version: I32 = 0
    observations: list[MdpComponentDescriptor] = field(default_factory=no_items)
    actions: list[MdpComponentDescriptor] = field(default_factory=no_items)
    rewards: list[MdpComponentDescriptor] = field(default_factory=no_items)
    terminations: list[MdpComponentDescriptor] = field(default_factory=no_items)
    randomizations: list[MdpRandomizationDescriptor] = field(default_factory=no_items)
    auxiliary_data: list[MdpComponentDescriptor] = field(default_factory=no_items)
    robot_info: MdpRobotInfo | None = None


@dataclass(slots=True)
class MdpComponentDescriptor:
    """One observation, action, reward or termination term on offer."""

    name: str = ""
    description: str = ""
    category: str = ""
    params_schema: dict[str, MdpParamDescriptor] = field(default_factory=no_entries)
    output_shape: list[I32] = field(default_factory=no_items)
    requires: list[str] = field(default_factory=no_items)  # what the robot or scene must have
    robot_types: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class MdpParamDescriptor:
    """One parameter of a component: type, default and legal range (when `has_range`); values travel as text."""

    type: str = ""
    default_value: str = ""
    description: str = ""
    range_min: F32 = 0.0
    range_max: F32 = 0.0
    has_range: bool = False


@dataclass(slots=True)
class MdpRandomizationDescriptor:
    """One quantity that can be randomised, with its default range."""

    base: MdpComponentDescriptor | None = None
    default_range_min: F32 = 0.0
    default_range_max: F32 = 0.0
    engine_target: str = ""


@dataclass(slots=True)
class MdpRobotInfo:
    """The robot's names and limits."""

    name: str = ""
    joint_names: list[str] = field(default_factory=no_items)
    actuator_names: list[str] = field(default_factory=no_items)
    actuator_limits: list[MdpActuatorLimit] = field(default_factory=no_items)
    body_names: list[str] = field(default_factory=no_items)
    site_names: list[str] = field(default_factory=no_items)
    sensor_names: list[str] = field(default_factory=no_items)
    available_scenes: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class MdpActuatorLimit:
    """Control range of one actuator, in the actuator's own unit."""

    lower: F32 = 0.0
    upper: F32 = 0.0
    default_value: F32 = 0.0
    scale: F32 = 0.0


@dataclass(slots=True)
class ContractValidationResult:
    """Whether the contract can be met, and every finding."""

    is_valid: bool = False
    negotiated_contract: TaskContract | None = None
    errors: list[ContractValidationMessage] = field(default_factory=no_items)
    warnings: list[ContractValidationMessage] = field(default_factory=no_items)
    resolved_optionals: list[str] = field(default_factory=no_items)
    unresolved_optionals: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class ContractValidationMessage:
    """One finding about a contract; `suggestion` is the nearest known name."""

    severity: str = ""
    component: str = ""
    term_name: str = ""
    message: str = ""
    suggestion: str = ""


@dataclass(slots=True)
class NegotiatedTaskSession:
    """The contract in force and the layout that follows from it."""

    session_id: str = ""
    resolved_contract: TaskContract | None = None
    observation_layout: list[ObservationSlot] = field(default_factory=no_items)
    reward_terms: list[str] = field(default_factory=no_items)
    termination_terms: list[str] = field(default_factory=no_items)
    action_layout: list[ActionGroupSlot] = field(default_factory=no_items)


@dataclass(slots=True)
class ObservationSlot:
    """Where one observation term lies in the flat vector, in elements."""

    name: str = ""
    group: str = ""
    offset: I32 = 0
    size: I32 = 0


@dataclass(slots=True)
class ActionGroupSlot:
    """Which elements of the action vector one group drives."""

    group_name: str = ""
    action_names: list[str] = field(default_factory=no_items)
    action_indices: list[I32] = field(default_factory=no_items)


@dataclass(slots=True)
class GetCapabilityManifestRequest:
    """Asks what tasks the engine can compose; empty names mean the loaded robot and scene."""

    robot_name: str = ""
    scene: str = ""


@dataclass(slots=True)
class GetCapabilityManifestResponse:
    """The manifest."""

    manifest: EngineCapabilityManifest | None = None


@dataclass(slots=True)
class ValidateTaskContractRequest:
    """Asks whether a contract can be met, without changing anything."""

    contract: TaskContract | None = None


@dataclass(slots=True)
class ValidateTaskContractResponse:
    """The findings."""

    result: ContractValidationResult | None = None


@dataclass(slots=True)
class NegotiateTaskRequest:
    """Puts a contract in force for the following steps."""

    contract: TaskContract | None = None


@dataclass(slots=True)
class NegotiateTaskResponse:
    """The session, or why the contract was refused."""

    success: bool = False
    message: str = ""
    session: NegotiatedTaskSession | None = None
    validation: ContractValidationResult | None = None


@dataclass(slots=True)
class PolicyCommandIdEntry:
    """A command that a policy understands; calls name it by `id`."""

    id: U32 = 0
    name: str = ""
    type: Annotated[PolicyCommandType, "i32"] = PolicyCommandType.FLOAT


@dataclass(slots=True)
class PolicyObservationField:
    """One input of a policy: its type by name, its size in values."""

    name: str = ""
    type: str = ""
    size: U32 = 0


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


@one_of("bool_val", "int_val", "float_val", "vec3_val", "trigger")
@dataclass(slots=True)
class MotionGraphInputValue:
    """Value of an input; the field of the input's type is given, the others are None.

    trigger: True fires it, as FireMotionGraphTrigger does.
    """

    bool_val: bool | None = None
    int_val: I32 | None = None
    float_val: F32 | None = None
    vec3_val: Vec3 | None = None
    trigger: bool | None = None


@dataclass(slots=True)
class PolicyOperationAck:
    """Whether the change was made, else why not."""

    success: bool = False
    message: str = ""


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
class SetPolicyCommandFloatRequest:
    """Tells a policy what to do, as a number in the command's own unit (a forward speed in m/s, for instance).

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0
    value: F32 = 0.0


@dataclass(slots=True)
class SetPolicyCommandBoolRequest:
    """Tells a policy what to do, as yes or no.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0
    value: bool = False


@dataclass(slots=True)
class JointGainOverride:
    """New gains of one joint; None keeps the policy's own value. A joint that the policy does not know is ignored.

    kp: N*m/rad or N/m. kd: N*m*s/rad or N*s/m. effort_limit: N*m or N. action_scale: radians or metres per unit of
    action. default_pos: radians or metres.
    """

    joint_name: str = ""  # ignored if the policy does not know it
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
class GetPolicyCommandFloatRequest:
    """Asks for the present value of a command that is a number.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0


@dataclass(slots=True)
class PolicyCommandFloatValue:
    """The command's value in its own unit, or why there is none."""

    success: bool = False
    value: F32 = 0.0
    message: str = ""


@dataclass(slots=True)
class GetPolicyCommandBoolRequest:
    """Asks for the present value of a command that is yes or no.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0
    command_id: U32 = 0


@dataclass(slots=True)
class PolicyCommandBoolValue:
    """The command's value, or why there is none."""

    success: bool = False
    value: bool = False
    message: str = ""


@dataclass(slots=True)
class SetMotionGraphActiveRequest:
    """Switches a robot's motion graph on or off."""

    entity: EntityId | None = None
    active: bool = False


@dataclass(slots=True)
class GetMotionGraphActiveRequest:
    """Asks whether a robot's motion graph is on."""

    entity: EntityId | None = None


@dataclass(slots=True)
class GetMotionGraphActiveResponse:
    """Whether the motion graph is on, or why there is no answer."""

    success: bool = False
    active: bool = False
    message: str = ""


@dataclass(slots=True)
class SetMotionGraphInputRequest:
    """Sets one input of a robot's motion graph; no method lists the inputs, their ids come from the graph's author."""

    entity: EntityId | None = None
    input_id: U32 = 0
    value: MotionGraphInputValue | None = None


@dataclass(slots=True)
class GetMotionGraphInputRequest:
    """Asks for the value of one input, read as `type_hint`."""

    entity: EntityId | None = None
    input_id: U32 = 0
    type_hint: Annotated[PolicyCommandType, "i32"] = PolicyCommandType.FLOAT


@dataclass(slots=True)
class GetMotionGraphInputResponse:
    """The input's value, or why there is none."""

    success: bool = False
    value: MotionGraphInputValue | None = None
    message: str = ""


@dataclass(slots=True)
class FireMotionGraphTriggerRequest:
    """Fires one trigger input of a robot's motion graph."""

    entity: EntityId | None = None
    input_id: U32 = 0


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


@dataclass(slots=True)
class GetPolicyBasePoseRequest:
    """Asks where the robot's base is; refused while the slot is inactive.

    entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.
    """

    entity: EntityId | None = None
    slot_id: U32 = 0


@dataclass(slots=True)
class PolicyBasePose:
    """The base in two frames, or why it is not known: metres and radians.

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
