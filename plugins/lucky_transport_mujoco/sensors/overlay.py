"""Debug drawings as geoms of MuJoCo's scene."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import DebugArrow, DebugLine, DebugVector3, DebugVelocityCommand
from lucky_transport_mujoco.bindings import mj

_Array = NDArray[np.float64]
_Colour = tuple[float, float, float, float]

#: How thick lines are.
_THICK_M = 0.01

#: How much they shine by themselves: a third of their light, so that they are seen from their dark side.
_SHINE = 0.3

#: Head of an arrow, as a share of its length; it is as wide as it is long.
_HEAD = 0.22

_WHITE = (1.0, 1.0, 1.0, 1.0)
_GO = (0.15, 0.85, 0.3, 1.0)
_TURN = (0.15, 0.45, 1.0, 1.0)

#: A turning rate is an arc of that many radians around its robot, this far from it and in this many pieces.
_ARC_M = 0.35
_ARC_PIECES = 24
_WHOLE_TURN = 1.9 * np.pi

#: Drawings end here, far behind every horizon; numbers beyond would only lose digits.
_FURTHEST_M = 1e6


def draw(scene: Any, drawings: Iterable[Any], yaw: float) -> None:
    """Add debug messages to a `mujoco.MjvScene`; a velocity command is that of a robot that faces `yaw`."""
    for drawing in drawings:
        if isinstance(drawing, DebugVelocityCommand):
            _add_command(scene, drawing, yaw)
        elif isinstance(drawing, DebugLine):
            _add_line(scene, _vector(drawing.start), _vector(drawing.end), _colour(drawing))
        else:
            way = _vector(drawing.direction) * (drawing.scale or 1.0)
            _add_arrow(scene, _vector(drawing.origin), way, _colour(drawing), _HEAD)


def _add_line(scene: Any, start: _Array, end: _Array, colour: _Colour) -> None:
    start, end = np.clip([start, end], -_FURTHEST_M, _FURTHEST_M)
    geom, kind = scene.geoms[scene.ngeom], mj.mjtGeom.mjGEOM_CAPSULE
    mj.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.zeros(9), np.clip(colour, 0, 1).astype(np.float32))
    mj.mjv_connector(geom, kind, _THICK_M, start, end)
    geom.category, geom.emission, geom.specular = mj.mjtCatBit.mjCAT_DECOR, _SHINE, 0.0
    scene.ngeom += 1


def _add_arrow(scene: Any, origin: _Array, way: _Array, colour: _Colour, head: float) -> None:
    """Add a shaft and two barbs of a share of its length; nothing for an arrow without length."""
    length, tip = float(np.linalg.norm(way)), origin + way
    if length < 1e-6:
        return
    _add_line(scene, origin, tip, colour)
    across = np.cross(way, (0.0, 0.0, 1.0) if abs(way[2]) < 0.9 * length else (1.0, 0.0, 0.0))
    across *= length / np.linalg.norm(across)
    for side in (across, -across):
        _add_line(scene, tip, tip - head * (way - 0.5 * side), colour)


def _vector(vector: DebugVector3 | None) -> _Array:
    return np.array((vector.x, vector.y, vector.z) if vector else (0.0, 0.0, 0.0), np.float64)


def _colour(drawing: DebugLine | DebugArrow) -> _Colour:
    color = drawing.color
    return (color.r, color.g, color.b, color.a) if color else _WHITE


def _add_command(scene: Any, command: DebugVelocityCommand, yaw: float) -> None:
    """Add an arrow for the walking speed (one metre long for 1 m/s) and an arc for the turning rate."""
    scale, origin = command.scale or 1.0, _vector(command.origin)
    ahead, left = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    _add_arrow(scene, origin, (command.lin_vel_x * ahead + command.lin_vel_y * left) * scale, _GO, _HEAD)
    turn = float(np.clip(command.ang_vel_z, -_WHOLE_TURN, _WHOLE_TURN))
    if abs(turn) < 1e-3:
        return
    angles = np.linspace(0.0, turn, _ARC_PIECES + 1)
    arc = origin + _ARC_M * scale * (np.cos(angles)[:, None] * ahead + np.sin(angles)[:, None] * left)
    for start, end in pairwise(arc[:-1]):
        _add_line(scene, start, end, _TURN)
    _add_arrow(scene, arc[-2], arc[-1] - arc[-2], _TURN, _HEAD * _ARC_PIECES / 3)
