"""Identifiers and geometry shared by the other files.

Generated from proto/common.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucky_transport.messages.scalars import F32, U64, struct

__all__ = ["EntityId", "Quat", "Transform", "Vec3"]


@dataclass(slots=True)
class EntityId:
    """Handle of one entity, valid while its scene is loaded."""

    id: U64 = 0


@struct
@dataclass(slots=True)
class Vec3:
    """Three components; the field that holds them says of what and in which unit."""

    x: F32 = 0.0
    y: F32 = 0.0
    z: F32 = 0.0


@struct
@dataclass(slots=True)
class Quat:
    """Rotation as a unit quaternion, scalar last (MuJoCo's own vectors have it first)."""

    x: F32 = 0.0
    y: F32 = 0.0
    z: F32 = 0.0
    w: F32 = 0.0


@dataclass(slots=True)
class Transform:
    """Placement of an entity in the world: metres, a rotation, and a factor per axis (1 = as authored)."""

    position: Vec3 | None = None
    rotation: Quat | None = None
    scale: Vec3 | None = None  # factor per axis, 1 = as authored
