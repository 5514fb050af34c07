"""What surfaces look like where a ray hits them: their normals and their colours.

Every function takes k hits and returns k rows; points are in the world's frame, in metres.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import Model, mj
from lucky_transport_mujoco.picture_model import CHECKER, SQUARE_M
from lucky_transport_mujoco.stage import RenderScene

__all__ = ["colours", "normals", "reflectivity"]

_Array = NDArray[np.float64]
_Type = mj.mjtGeom


def _local(stage: RenderScene, geom: int, points: _Array) -> _Array:
    """Return the points in the frame of one geom."""
    return (points - stage.data.geom_xpos[geom]) @ stage.data.geom_xmat[geom].reshape(3, 3)


def normals(stage: RenderScene, geoms: NDArray[np.int32], points: _Array) -> _Array:
    """Return the outward unit normals at `points` (k, 3) on `geoms` (k,), -1 for no geom (then zeros): (k, 3)."""
    out = np.zeros(points.shape)
    for geom in np.unique(geoms[geoms >= 0]):
        here = geoms == geom
        at = _local(stage, geom, points[here])
        inside = _normal_in_geom(stage.model, geom, at)
        inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-12)
        out[here] = inside @ stage.data.geom_xmat[geom].reshape(3, 3).T
    return out


def _normal_in_geom(model: Model, geom: int, at: _Array) -> _Array:
    """Return normals of any length at points in the geom's own frame."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == _Type.mjGEOM_PLANE:
        return np.tile([0.0, 0.0, 1.0], (len(at), 1))
    if kind == _Type.mjGEOM_SPHERE:
        return at.copy()
    if kind == _Type.mjGEOM_CAPSULE:
        along = np.clip(at[:, 2], -size[1], size[1])
        return at - np.stack([np.zeros(len(at)), np.zeros(len(at)), along], axis=1)
    if kind == _Type.mjGEOM_BOX:
        face = np.argmax(np.abs(at) / size, axis=1)
        out = np.zeros(at.shape)
        rows = np.arange(len(at))
        out[rows, face] = np.sign(at[rows, face])
        return out
    if kind == _Type.mjGEOM_HFIELD:
        return _hfield_normal(model, int(model.geom_dataid[geom]), at)
    raise NotImplementedError(f"geom {geom} of type {_Type(kind).name}: no normals for this type")


def _hfield_normal(model: Model, field: int, at: _Array) -> _Array:
    """Return the normal of the cell that each point is in; heights are taken as a smooth surface."""
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    start = int(model.hfield_adr[field])
    half_x, half_y, top, _ = model.hfield_size[field]
    heights = model.hfield_data[start : start + rows * columns].reshape(rows, columns).astype(np.float64) * top
    column = np.clip(((at[:, 0] / half_x + 1) / 2 * (columns - 1)).astype(int), 0, columns - 2)
    row = np.clip(((at[:, 1] / half_y + 1) / 2 * (rows - 1)).astype(int), 0, rows - 2)
    low, right = heights[row, column], heights[row, column + 1]
    above, across = heights[row + 1, column], heights[row + 1, column + 1]
    slope_x = (right - low + across - above) / 2 / (2 * half_x / (columns - 1))
    slope_y = (above - low + across - right) / 2 / (2 * half_y / (rows - 1))
    return np.stack([-slope_x, -slope_y, np.ones(len(at))], axis=1)


def colours(stage: RenderScene, geoms: NDArray[np.int32], points: _Array, contrast: _Array) -> _Array:
    """Return colours, RGB from 0 to 1: (k, 3); geom -1 is black.

    contrast: (k,), from 1 (the floor's squares are sharp) to 0 (they are too small to be told apart).
    """
    out = np.zeros(points.shape)
    hit = geoms >= 0
    out[hit] = stage.model.geom_rgba[geoms[hit], :3]
    floor = terrain.geom(stage.model, "floor")
    on_floor = geoms == floor
    square = np.floor(_local(stage, floor, points[on_floor])[:, :2] / SQUARE_M).sum(axis=1) % 2
    bright, dark = np.array(CHECKER[0]), np.array(CHECKER[1])
    mixed = 0.5 + (0.5 - square) * contrast[on_floor]
    out[on_floor] = bright + (dark - bright) * mixed[:, None]
    return out


def reflectivity(stage: RenderScene, geoms: NDArray[np.int32], points: _Array) -> _Array:
    """Return the share of light that comes back, 0 to 1: (k,), the brightness of the surface's colour."""
    return colours(stage, geoms, points, np.ones(len(points))) @ np.array([0.2126, 0.7152, 0.0722])
