"""What debug drawing leaves in the world, as straight strokes in space.

Strokes are plain numbers; who draws them knows nothing of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import DebugArrow, DebugLine, DebugVector3, DebugVelocityCommand

__all__ = ["Strokes", "strokes_of"]

_Array = NDArray[np.float64]
_Stroke = tuple[_Array, _Array, tuple[float, float, float, float]]

_WHITE = (1.0, 1.0, 1.0, 1.0)
_GO = (0.15, 0.85, 0.3, 1.0)
_TURN = (0.15, 0.45, 1.0, 1.0)

#: A turning rate is an arc of that many radians around its robot, this far from it and in this many pieces.
_ARC_M = 0.35
_ARC_PIECES = 24
_WHOLE_TURN = 1.9 * np.pi

#: Strokes end here, far behind every horizon; numbers beyond would only lose digits.
_FURTHEST_M = 1e6

#: Head of an arrow, as a share of its length; it is as wide as it is long.
_HEAD = 0.22


@dataclass(frozen=True, slots=True)
class Strokes:
    """starts, ends: float64 (k, 3), in the world's frame. colours: float64 (k, 4), RGBA from 0 to 1."""

    starts: _Array
    ends: _Array
    colours: _Array

    def __len__(self) -> int:
        return len(self.starts)


def strokes_of(drawings: Iterable[Any], yaw: float) -> Strokes:
    """Return the strokes of debug messages; a velocity command is drawn in the frame of a robot that faces `yaw`."""
    found: list[_Stroke] = []
    for drawing in drawings:
        if isinstance(drawing, DebugLine):
            found.append((_vector(drawing.start), _vector(drawing.end), _colour(drawing)))
        elif isinstance(drawing, DebugArrow):
            way = _vector(drawing.direction) * (drawing.scale or 1.0)
            found += _arrow(_vector(drawing.origin), way, _colour(drawing))
        elif isinstance(drawing, DebugVelocityCommand):
            found += _command(drawing, yaw)
    if not found:
        return Strokes(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 4)))
    starts, ends, colours = zip(*found, strict=True)
    places = np.clip([starts, ends], -_FURTHEST_M, _FURTHEST_M)
    return Strokes(places[0], places[1], np.array(colours, np.float64))


def _vector(vector: DebugVector3 | None) -> _Array:
    return np.array((vector.x, vector.y, vector.z) if vector else (0.0, 0.0, 0.0), np.float64)


def _colour(drawing: DebugLine | DebugArrow) -> tuple[float, float, float, float]:
    color = drawing.color
    return (color.r, color.g, color.b, color.a) if color else _WHITE


def _arrow(origin: _Array, way: _Array, colour: tuple[float, float, float, float]) -> Iterator[_Stroke]:
    """Yield a shaft and four barbs; nothing for an arrow without length."""
    length = float(np.linalg.norm(way))
    if length < 1e-6:
        return
    tip, along = origin + way, way / length
    yield origin, tip, colour
    across = np.cross(along, (0.0, 0.0, 1.0) if abs(along[2]) < 0.9 else (1.0, 0.0, 0.0))
    across /= np.linalg.norm(across)
    for side in (across, -across, np.cross(along, across), -np.cross(along, across)):
        yield tip, tip - _HEAD * length * (along - 0.5 * side), colour


def _command(command: DebugVelocityCommand, yaw: float) -> Iterator[_Stroke]:
    """Yield an arrow for the walking speed (one metre long for 1 m/s) and an arc for the turning rate."""
    scale = command.scale or 1.0
    origin = _vector(command.origin)
    ahead, left = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    yield from _arrow(origin, (command.lin_vel_x * ahead + command.lin_vel_y * left) * scale, _GO)
    turn = float(np.clip(command.ang_vel_z, -_WHOLE_TURN, _WHOLE_TURN))
    if abs(turn) < 1e-3:
        return
    angles = np.linspace(0.0, turn, _ARC_PIECES + 1)
    arc = origin + _ARC_M * scale * (np.cos(angles)[:, None] * ahead + np.sin(angles)[:, None] * left)
    for start, end in pairwise(arc):
        yield start, end, _TURN
    tangent = np.sign(turn) * (-np.sin(turn) * ahead + np.cos(turn) * left)
    size = 0.3 * _ARC_M * scale
    for side in (-0.5, 0.5):
        radial = np.cos(turn) * ahead + np.sin(turn) * left
        yield arc[-1], arc[-1] - size * (tangent + side * 1.6 * radial), _TURN
