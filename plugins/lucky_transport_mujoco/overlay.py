"""Strokes in space drawn into a finished picture, hidden where something stands before them.

Every way of drawing pictures gets the same lines from here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.picture_model import FAR_M, NEAR_M
from lucky_transport_mujoco.stage import Eye
from lucky_transport_mujoco.strokes import Strokes

__all__ = ["draw"]

_Array = NDArray[np.float64]

#: A stroke lying on a surface is seen: it may be this much behind, in metres and as a share of its distance.
_SLACK_M = 0.008
_SLACK = 0.002


def draw(picture: NDArray[np.uint8], depth: NDArray[np.float32], eye: Eye, strokes: Strokes) -> None:
    """Draw `strokes` as `eye` sees them over `picture`, uint8 (height, width, 3 or 4) of that `depth` in metres."""
    height, width = depth.shape
    thickness = max(2.0, height / 220)
    for start, end, colour in zip(strokes.starts, strokes.ends, strokes.colours, strict=True):
        clipped = _in_front(start, end, eye)
        if clipped is not None:
            seen = _on_screen(eye.project(clipped, width, height), width, height, thickness)
            if seen is not None:
                _stroke(picture, depth, seen, np.clip(colour, 0, 1), thickness)


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
    """Return the part of a projected stroke (2, 3: x, y, depth) inside the picture; its third column becomes 1/depth,
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
    picture: NDArray[np.uint8], depth: NDArray[np.float32], ends: _Array, colour: _Array, thickness: float
) -> None:
    """Blend one stroke into the picture: for each pixel along its longer side a few across it, softly at the edges."""
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
    before = picture[rows, columns, :3].astype(np.float64)
    picture[rows, columns, :3] = (before + (colour[:3] * 255 - before) * cover + 0.5).astype(np.uint8)
