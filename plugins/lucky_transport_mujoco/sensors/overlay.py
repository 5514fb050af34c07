"""Debug drawings as straight strokes in space, and strokes drawn into a finished image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import DebugArrow, DebugLine, DebugVector3, DebugVelocityCommand
from lucky_transport_mujoco.sensors.render_model import FAR_M, NEAR_M
from lucky_transport_mujoco.sensors.render_scene import Eye

_Array = NDArray[np.float64]

#: A stroke lying on a surface is seen: it may be this much behind, in metres and as a share of its distance.
_SLACK_M = 0.008
_SLACK = 0.002


def draw(image: NDArray[np.uint8], depth: NDArray[np.float32], eye: Eye, strokes: Strokes) -> None:
    """Draw `strokes` as `eye` sees them over `image`, uint8 (height, width, 3 or 4) of that `depth` in metres."""
    height, width = depth.shape
    thickness = max(2.0, height / 220)
    for start, end, colour in zip(strokes.starts, strokes.ends, strokes.colours, strict=True):
        clipped = _in_front(start, end, eye)
        if clipped is not None:
            seen = _on_screen(eye.project(clipped, width, height), width, height, thickness)
            if seen is not None:
                _stroke(image, depth, seen, np.clip(colour, 0, 1), thickness)


def _in_front(start: _Array, end: _Array, eye: Eye) -> _Array | None:
    """Return the part of a stroke that is before the eye and not too far, (2, 3), None when there is none."""
    ends = np.stack([start, end])
    depth = (ends - eye.place) @ eye.forward
    if (depth < NEAR_M).all() or (depth > FAR_M).all():
        return None
    shares = np.array([0.0, 1.0])
    for limit, beyond in ((NEAR_M, depth < NEAR_M), (FAR_M, depth > FAR_M)):
        if beyond.any():  # then the other end is on the other side
            shares[beyond] = (limit - depth[0]) / (depth[1] - depth[0])
    return start + shares[:, None] * (end - start)


def _on_screen(ends: _Array, width: int, height: int, margin: float) -> _Array | None:
    """Return the part of a projected stroke (2, 3: x, y, depth) inside the image; its third column becomes 1/depth,
    which is what changes evenly along a line on the screen. None when no part is inside.
    """
    out = ends.copy()
    out[:, 2] = 1 / out[:, 2]
    start, way = out[0].copy(), out[1] - out[0]
    first, last = 0.0, 1.0
    for axis, most in ((0, width), (1, height)):
        for bound, sign in ((-margin, 1.0), (most + margin, -1.0)):
            room, change = sign * (start[axis] - bound), sign * way[axis]
            if change == 0:
                if room < 0:
                    return None
            elif change > 0:
                first = max(first, -room / change)
            else:
                last = min(last, -room / change)
    if first >= last:
        return None
    inside = np.stack([start + first * way, start + last * way])
    inside[:, :2] = np.clip(inside[:, :2], -margin, [width + margin, height + margin])  # what rounding left outside
    return inside


def _stroke(
    image: NDArray[np.uint8], depth: NDArray[np.float32], ends: _Array, colour: _Array, thickness: float
) -> None:
    """Blend one stroke into the image: for each pixel along its longer side a few across it, softly at the edges."""
    (x0, y0, near0), (x1, y1, near1) = ends
    steep = abs(y1 - y0) > abs(x1 - x0)
    a0, a1, b0, b1 = (y0, y1, x0, x1) if steep else (x0, x1, y0, y1)
    if a0 > a1:
        a0, a1, b0, b1, near0, near1 = a1, a0, b1, b0, near1, near0
    along = np.arange(int(np.floor(a0)), int(np.floor(a1)) + 1)
    share = np.clip((along + 0.5 - a0) / max(a1 - a0, 1e-9), 0, 1)
    middle, metres = b0 + (b1 - b0) * share, 1 / (near0 + (near1 - near0) * share)
    half = thickness / 2 * np.hypot(1.0, (b1 - b0) / max(a1 - a0, 1e-9))
    reach = int(np.ceil(half)) + 1
    across = np.floor(middle).astype(int)[:, None] + np.arange(-reach, reach + 1)
    cover = np.clip(half + 0.5 - np.abs(across + 0.5 - middle[:, None]), 0, 1) * colour[3]
    rows, columns = (along[:, None] + 0 * across, across) if steep else (across, along[:, None] + 0 * across)
    inside = (rows >= 0) & (rows < depth.shape[0]) & (columns >= 0) & (columns < depth.shape[1]) & (cover > 0)
    rows, columns, cover = rows[inside], columns[inside], cover[inside]
    far = np.broadcast_to(metres[:, None], across.shape)[inside]
    seen = far * (1 - _SLACK) - _SLACK_M <= depth[rows, columns]
    rows, columns, cover = rows[seen], columns[seen], cover[seen, None]
    before = image[rows, columns, :3].astype(np.float64)
    image[rows, columns, :3] = (before + (colour[:3] * 255 - before) * cover + 0.5).astype(np.uint8)


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
