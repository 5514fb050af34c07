"""Messages of AgentService: schema, reset and action groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.empty import no_items
from lucky_transport.messages.scalars import F32, I32, U32

__all__ = [
    "ActionGroupEntry",
    "AgentSchema",
    "GetAgentSchemaRequest",
    "GetAgentSchemaResponse",
    "ResetAgentRequest",
    "ResetAgentResponse",
    "SetActionGroupRequest",
    "SetActionGroupResponse",
    "SimulationContract",
]


@dataclass(slots=True)
class GetAgentSchemaRequest:
    """Asks for an agent's schema; "" means `agent_0`."""

    agent_name: str = ""


@dataclass(slots=True)
class AgentSchema:
    """Names and sizes of one agent's flat observation and action vectors."""

    agent_name: str = ""
    observation_names: list[str] = field(default_factory=no_items)
    action_names: list[str] = field(default_factory=no_items)
    observation_size: U32 = 0
    action_size: U32 = 0


@dataclass(slots=True)
class GetAgentSchemaResponse:
    """The agent's schema; sizes are 0 while no agent is registered."""

    schema: AgentSchema | None = None


@dataclass(slots=True)
class SimulationContract:
    """Domain randomisation for the next reset. Empty ranges and zeros mean "leave as it is"; ranges are [low, high].

    Noise in metres, radians, rad/s; friction, mass and motor strength as factors; offsets in metres or radians;
    intervals in seconds; velocities in m/s and rad/s.
    """

    pose_position_noise: list[F32] = field(default_factory=no_items)
    pose_orientation_noise: F32 = 0.0
    joint_position_noise: F32 = 0.0
    joint_velocity_noise: F32 = 0.0
    friction_range: list[F32] = field(default_factory=no_items)
    restitution_range: list[F32] = field(default_factory=no_items)
    mass_scale_range: list[F32] = field(default_factory=no_items)
    com_offset_range: list[F32] = field(default_factory=no_items)
    motor_strength_range: list[F32] = field(default_factory=no_items)
    motor_offset_range: list[F32] = field(default_factory=no_items)
    push_interval_range: list[F32] = field(default_factory=no_items)
    push_velocity_range: list[F32] = field(default_factory=no_items)
    terrain_type: str = ""
    terrain_difficulty: F32 = 0.0
    vel_command_x_range: list[F32] = field(default_factory=no_items)
    vel_command_y_range: list[F32] = field(default_factory=no_items)
    vel_command_yaw_range: list[F32] = field(default_factory=no_items)
    vel_command_resampling_time_range: list[F32] = field(default_factory=no_items)
    vel_command_standing_probability: F32 = 0.0


@dataclass(slots=True)
class ResetAgentRequest:
    """Resets one agent; the contract holds until another one is given."""

    agent_name: str = ""
    simulation_contract: SimulationContract | None = None


@dataclass(slots=True)
class ResetAgentResponse:
    """Whether the agent was reset, else why not."""

    success: bool = False
    message: str = ""


@dataclass(slots=True)
class ActionGroupEntry:
    """Action values for a named subset of the action vector's indices."""

    group_name: str = ""
    actions: list[F32] = field(default_factory=no_items)
    action_indices: list[I32] = field(default_factory=no_items)


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
