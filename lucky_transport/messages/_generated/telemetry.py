"""A light stream for dashboards and recorders: positions and applied controls, nothing else.

Generated from proto/telemetry.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import F32, U32, U64, no_items

__all__ = [
    "GetTelemetrySchemaRequest",
    "GetTelemetrySchemaResponse",
    "StreamTelemetryRequest",
    "TelemetryFrame",
    "TelemetrySchema",
]


@dataclass(slots=True)
class TelemetrySchema:
    """Names and sizes of the vectors in TelemetryFrame: nq positions, nu controls."""

    observation_names: list[str] = field(default_factory=no_items)
    action_names: list[str] = field(default_factory=no_items)
    nq: U32 = 0
    nu: U32 = 0


@dataclass(slots=True)
class GetTelemetrySchemaRequest:
    """Asks for the names and sizes."""


@dataclass(slots=True)
class GetTelemetrySchemaResponse:
    """The names and sizes."""

    schema: TelemetrySchema | None = None


@dataclass(slots=True)
class StreamTelemetryRequest:
    """Asks for samples, `target_fps` per second of wall clock as a wish (0 = the engine's default)."""

    target_fps: U32 = 0


@dataclass(slots=True)
class TelemetryFrame:
    """One sample.

    timestamp_ms: wall clock, milliseconds since 1970. observation_qpos: [nq], MuJoCo's order and units. action_ctrl:
    [nu], as last applied.
    """

    timestamp_ms: U64 = 0
    frame_number: U32 = 0
    task_index: U32 = 0
    observation_qpos: list[F32] = field(default_factory=no_items)
    action_ctrl: list[F32] = field(default_factory=no_items)
