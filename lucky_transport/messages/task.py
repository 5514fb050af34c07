"""Messages of AgentService: the capability manifest and task contracts."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.empty import no_entries, no_items
from lucky_transport.messages.scalars import F32, I32

__all__ = [
    "ActionContract",
    "ActionGroupSlot",
    "ActionTermRequest",
    "AuxiliaryDataRequest",
    "ContractValidationMessage",
    "ContractValidationResult",
    "CustomRandomization",
    "EngineCapabilityManifest",
    "GetCapabilityManifestRequest",
    "GetCapabilityManifestResponse",
    "MdpActuatorLimit",
    "MdpComponentDescriptor",
    "MdpParamDescriptor",
    "MdpRandomizationDescriptor",
    "MdpRobotInfo",
    "NegotiateTaskRequest",
    "NegotiateTaskResponse",
    "NegotiatedTaskSession",
    "ObservationContract",
    "ObservationSlot",
    "ObservationTermRequest",
    "RandomizationContract",
    "RewardContract",
    "RewardTermRequest",
    "TaskContract",
    "TerminationContract",
    "TerminationTermRequest",
    "ValidateTaskContractRequest",
    "ValidateTaskContractResponse",
]


@dataclass(slots=True)
class GetCapabilityManifestRequest:
    """Asks what tasks the engine can compose; empty names mean the loaded robot and scene."""

    robot_name: str = ""
    scene: str = ""


@dataclass(slots=True)
class MdpParamDescriptor:
    """One parameter of a component: type, default and legal range (when `has_range`)."""

    type: str = ""
    default_value: str = ""
    description: str = ""
    range_min: F32 = 0.0
    range_max: F32 = 0.0
    has_range: bool = False


@dataclass(slots=True)
class MdpComponentDescriptor:
    """One observation, action, reward or termination term on offer."""

    name: str = ""
    description: str = ""
    category: str = ""
    params_schema: dict[str, MdpParamDescriptor] = field(default_factory=no_entries)
    output_shape: list[I32] = field(default_factory=no_items)
    requires: list[str] = field(default_factory=no_items)
    robot_types: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class MdpRandomizationDescriptor:
    """One quantity that can be randomised, with its default range."""

    base: MdpComponentDescriptor | None = None
    default_range_min: F32 = 0.0
    default_range_max: F32 = 0.0
    engine_target: str = ""


@dataclass(slots=True)
class MdpActuatorLimit:
    """Control range of one actuator, in the actuator's own unit."""

    lower: F32 = 0.0
    upper: F32 = 0.0
    default_value: F32 = 0.0
    scale: F32 = 0.0


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
class GetCapabilityManifestResponse:
    """The manifest."""

    manifest: EngineCapabilityManifest | None = None


@dataclass(slots=True)
class ObservationTermRequest:
    """One observation term asked for."""

    name: str = ""
    params: dict[str, str] = field(default_factory=no_entries)
    group: str = ""


@dataclass(slots=True)
class ObservationContract:
    """Observation terms a task needs, and those it would like."""

    required: list[ObservationTermRequest] = field(default_factory=no_items)
    optional: list[ObservationTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class ActionTermRequest:
    """One way to act on a set of joints."""

    type: str = ""
    joint_pattern: str = ""
    params: dict[str, str] = field(default_factory=no_entries)
    group: str = ""


@dataclass(slots=True)
class ActionContract:
    """Action terms a task uses."""

    terms: list[ActionTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class RewardTermRequest:
    """One reward term and its weight."""

    name: str = ""
    weight: F32 = 0.0
    params: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class RewardContract:
    """Reward terms computed by the engine and names of those computed in Python."""

    engine_terms: list[RewardTermRequest] = field(default_factory=no_items)
    python_terms: list[str] = field(default_factory=no_items)


@dataclass(slots=True)
class TerminationTermRequest:
    """One termination term; `is_timeout` makes it truncate instead of terminate."""

    name: str = ""
    is_timeout: bool = False
    params: dict[str, str] = field(default_factory=no_entries)


@dataclass(slots=True)
class TerminationContract:
    """Termination terms a task uses."""

    terms: list[TerminationTermRequest] = field(default_factory=no_items)


@dataclass(slots=True)
class CustomRandomization:
    """A named range to randomise, for engines that know the name."""

    name: str = ""
    range_min: F32 = 0.0
    range_max: F32 = 0.0
    target: str = ""


@dataclass(slots=True)
class RandomizationContract:
    """Randomisation of a task: a serialised SimulationContract and custom ranges."""

    simulation_contract_bytes: bytes = b""
    custom_randomizations: list[CustomRandomization] = field(default_factory=no_items)


@dataclass(slots=True)
class AuxiliaryDataRequest:
    """Extra data asked for beside the observation."""

    name: str = ""
    params: dict[str, str] = field(default_factory=no_entries)


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
class ValidateTaskContractRequest:
    """Asks whether a contract can be met, without changing anything."""

    contract: TaskContract | None = None


@dataclass(slots=True)
class ContractValidationMessage:
    """One finding about a contract; `suggestion` is the nearest known name."""

    severity: str = ""
    component: str = ""
    term_name: str = ""
    message: str = ""
    suggestion: str = ""


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
class ValidateTaskContractResponse:
    """The findings."""

    result: ContractValidationResult | None = None


@dataclass(slots=True)
class NegotiateTaskRequest:
    """Puts a contract in force for the following steps."""

    contract: TaskContract | None = None


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
class NegotiatedTaskSession:
    """The contract in force and the layout that follows from it."""

    session_id: str = ""
    resolved_contract: TaskContract | None = None
    observation_layout: list[ObservationSlot] = field(default_factory=no_items)
    reward_terms: list[str] = field(default_factory=no_items)
    termination_terms: list[str] = field(default_factory=no_items)
    action_layout: list[ActionGroupSlot] = field(default_factory=no_items)


@dataclass(slots=True)
class NegotiateTaskResponse:
    """The session, or why the contract was refused."""

    success: bool = False
    message: str = ""
    session: NegotiatedTaskSession | None = None
    validation: ContractValidationResult | None = None
