"""Debug drawings as straight strokes in space, and strokes drawn into a finished image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import DebugArrow, DebugLine, DebugVector3, DebugVelocityCommand
from lucky_transport_mujoco.sensors.render_scene import Eye

_Array = NDArray[np.float64]
_Colour = tuple[float, float, float, float]

#: A stroke lying on a surface is seen: it may be this much behind, in metres and as a share of its distance.
_SLACK_M = 0.008
_SLACK = 0.002

#: Nothing nearer is drawn.
_NEAR_M = 0.02


class Stroke(NamedTuple):
    """start, end: float64 (3,), in the world's frame. colour: RGBA from 0 to 1."""

    start: _Array
    end: _Array
    colour: _Colour


def draw(image: NDArray[np.uint8], depth: NDArray[np.float32], eye: Eye, strokes: Iterable[Stroke]) -> None:
    """Draw `strokes` as `eye` sees them over `image`, uint8 (height, width, 3 or 4) of that `depth` in metres."""
    height, width = depth.shape
    thickness = max(2, height // 220)
    for stroke in strokes:
        ends = _seen(stroke, eye, width / height)
        if ends is not None:
            _paint(image, depth, eye.project(ends, width, height), np.clip(stroke.colour, 0, 1), thickness)


def _seen(stroke: Stroke, eye: Eye, aspect: float) -> _Array | None:
    """Return the part of a stroke that is in the eye's pyramid, (2, 3), None when there is none."""
    wide, high = eye.forward * eye.opening * aspect, eye.forward * eye.opening
    sides = np.stack([wide - eye.right, wide + eye.right, high - eye.up, high + eye.up, eye.forward])
    start = sides @ (stroke.start - eye.place)
    end = sides @ (stroke.end - eye.place)
    start[4] -= _NEAR_M
    end[4] -= _NEAR_M
    first, last = 0.0, 1.0
    for one, other in zip(start, end, strict=True):  # negative is outside
        if one < 0 and other < 0:
            return None
        if one < 0:
            first = max(first, one / (one - other))
        elif other < 0:
            last = min(last, one / (one - other))
    if first >= last:
        return None
    return stroke.start + np.array([[first], [last]]) * (stroke.end - stroke.start)


def _paint(image: NDArray[np.uint8], depth: NDArray[np.float32], ends: _Array, colour: _Array, thickness: int) -> None:
    """Blend a stroke into the image, a square for each of its pixels; ends (2, 3) are x, y and depth."""
    ends = ends.copy()
    ends[:, 2] = 1 / ends[:, 2]  # changes evenly along a line on the screen
    share = np.linspace(0, 1, int(np.abs(ends[1, :2] - ends[0, :2]).max()) + 2)
    x, y, inverse = (ends[0] + share[:, None] * (ends[1] - ends[0])).T
    square = np.arange(thickness) - (thickness - 1) / 2
    columns = np.floor(x[:, None, None] + square)
    rows = np.floor(y[:, None, None] + square[:, None])
    columns, rows, metres = (a.ravel() for a in np.broadcast_arrays(columns, rows, 1 / inverse[:, None, None]))
    inside = (columns >= 0) & (columns < depth.shape[1]) & (rows >= 0) & (rows < depth.shape[0])
    at = rows[inside].astype(int), columns[inside].astype(int)
    before = metres[inside] * (1 - _SLACK) - _SLACK_M <= depth[at]
    at = at[0][before], at[1][before]
    pixels = image[at][:, :3].astype(np.float64)
    image[(*at, slice(3))] = (pixels + (colour[:3] * 255 - pixels) * colour[3] + 0.5).astype(np.uint8)


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


def strokes_of(drawings: Iterable[Any], yaw: float) -> list[Stroke]:
    """Return the strokes of debug messages; a velocity command is drawn in the frame of a robot that faces `yaw`."""
    found: list[Stroke] = []
    for drawing in drawings:
        if isinstance(drawing, DebugVelocityCommand):
            found += _command(drawing, yaw)
        elif isinstance(drawing, DebugLine):
            found.append(Stroke(_vector(drawing.start), _vector(drawing.end), _colour(drawing)))
        else:
            way = _vector(drawing.direction) * (drawing.scale or 1.0)
            found += _arrow(_vector(drawing.origin), way, _colour(drawing), _HEAD)
    limits = -_FURTHEST_M, _FURTHEST_M
    return [Stroke(np.clip(start, *limits), np.clip(end, *limits), colour) for start, end, colour in found]


def _vector(vector: DebugVector3 | None) -> _Array:
    return np.array((vector.x, vector.y, vector.z) if vector else (0.0, 0.0, 0.0), np.float64)


def _colour(drawing: DebugLine | DebugArrow) -> _Colour:
    color = drawing.color
    return (color.r, color.g, color.b, color.a) if color else _WHITE


def _arrow(origin: _Array, way: _Array, colour: _Colour, head: float) -> Iterator[Stroke]:
    """Yield a shaft and four barbs, of a share of its length; nothing for an arrow without length."""
    length = float(np.linalg.norm(way))
    if length < 1e-6:
        return
    tip, along = origin + way, way / length
    yield Stroke(origin, tip, colour)
    across = np.cross(along, (0.0, 0.0, 1.0) if abs(along[2]) < 0.9 else (1.0, 0.0, 0.0))
    across /= np.linalg.norm(across)
    for side in (across, -across, np.cross(along, across), -np.cross(along, across)):
        yield Stroke(tip, tip - head * length * (along - 0.5 * side), colour)


def _command(command: DebugVelocityCommand, yaw: float) -> Iterator[Stroke]:
    """Yield an arrow for the walking speed (one metre long for 1 m/s) and an arc for the turning rate."""
    scale = command.scale or 1.0
    origin = _vector(command.origin)
    ahead, left = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    yield from _arrow(origin, (command.lin_vel_x * ahead + command.lin_vel_y * left) * scale, _GO, _HEAD)
    turn = float(np.clip(command.ang_vel_z, -_WHOLE_TURN, _WHOLE_TURN))
    if abs(turn) < 1e-3:
        return
    angles = np.linspace(0.0, turn, _ARC_PIECES + 1)
    arc = origin + _ARC_M * scale * (np.cos(angles)[:, None] * ahead + np.sin(angles)[:, None] * left)
    for start, end in pairwise(arc[:-1]):
        yield Stroke(start, end, _TURN)
    yield from _arrow(arc[-2], arc[-1] - arc[-2], _TURN, _HEAD * _ARC_PIECES / 3)
