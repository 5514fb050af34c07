"""Lines and arrows drawn over the scene, for a person to look at. Nothing here changes the simulation.

Generated from proto/debug.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import F32, no_items, struct

__all__ = [
    "DebugArrow",
    "DebugColor",
    "DebugDrawRequest",
    "DebugDrawResponse",
    "DebugLine",
    "DebugVector3",
    "DebugVelocityCommand",
]


@struct
@dataclass(slots=True)
class DebugVector3:
    """A point or a direction in the world, in metres."""

    x: F32 = 0.0
    y: F32 = 0.0
    z: F32 = 0.0


@struct
@dataclass(slots=True)
class DebugColor:
    """A colour, each component from 0 to 1; `a` is opacity."""

    r: F32 = 0.0
    g: F32 = 0.0
    b: F32 = 0.0
    a: F32 = 0.0


@dataclass(slots=True)
class DebugLine:
    """A line between two points."""

    start: DebugVector3 | None = None
    end: DebugVector3 | None = None
    color: DebugColor | None = None


@dataclass(slots=True)
class DebugArrow:
    """An arrow; it is as long as `direction` times `scale` (0 counts as 1)."""

    origin: DebugVector3 | None = None
    direction: DebugVector3 | None = None
    color: DebugColor | None = None
    scale: F32 = 0.0


@dataclass(slots=True)
class DebugVelocityCommand:
    """A velocity command shown at a robot.

    lin_vel_x, lin_vel_y: m/s forward and sideways. ang_vel_z: rad/s about the vertical. scale: metres drawn per unit, 0
    counts as 1.
    """

    origin: DebugVector3 | None = None
    lin_vel_x: F32 = 0.0
    lin_vel_y: F32 = 0.0
    ang_vel_z: F32 = 0.0
    scale: F32 = 0.0


@dataclass(slots=True)
class DebugDrawRequest:
    """Everything to draw in one call; `clear_previous` removes what earlier calls drew."""

    lines: list[DebugLine] = field(default_factory=no_items)
    arrows: list[DebugArrow] = field(default_factory=no_items)
    velocity_command: DebugVelocityCommand | None = None
    clear_previous: bool = False


@dataclass(slots=True)
class DebugDrawResponse:
    """Whether it was drawn."""

    success: bool = False
