"""Messages of AgentService: one tick of one agent, and the progress of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from lucky_transport.messages.agent import ActionGroupEntry
from lucky_transport.messages.empty import no_entries, no_items
from lucky_transport.messages.geometry import EntityId
from lucky_transport.messages.media import CameraStreamKind, NamedImageFrame
from lucky_transport.messages.scalars import F32, I32, U32, U64, one_of

__all__ = [
    "AgentFrame",
    "GetCameraFrameRequest",
    "ProgressAck",
    "ProgressReport",
    "StepRequest",
    "StepResponse",
]


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
    """A picture to be taken with a step, by camera entity or by name (`id` counts when given).

    width, height: pixels, 0 = the camera's own. format: "raw" or "jpeg"; engines always send raw.
    """

    id: EntityId | None = None
    name: str = ""
    width: U32 = 0
    height: U32 = 0
    format: str = ""
    kind: Annotated[CameraStreamKind, "i32"] = CameraStreamKind.COLOR


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
    reward_signals, termination_flags: by term, unweighted; there is no total. terminated: the episode ended by the
    task's rules; truncated: it was cut short. info: further numbers by name.
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
