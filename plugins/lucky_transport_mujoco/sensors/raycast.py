"""Images by ray casting for machines without OpenGL, and the hits, normals and colours that the lidar reads too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import Model, mj
from lucky_transport_mujoco.sensors.render_model import (
    AMBIENT,
    CHECKER,
    FAR_M,
    HAZE_M,
    HEADLIGHT,
    HORIZON,
    NEAR_M,
    SQUARE_M,
    SUNLIGHT,
    ZENITH,
)
from lucky_transport_mujoco.sensors.render_scene import Eye, Renderer, RenderResult, RenderScene

_Array = NDArray[np.float64]

#: MuJoCo 4 returns normals too and wants to be told that we do not need them; MuJoCo 3 does not know the argument.
_EXTRA = {"normal": None} if "normal:" in (mj.mj_multiRay.__doc__ or "") else {}

#: Shadows are looked for this near to the robot, by rays from a lamp this far away: as good as the sun.
_SHADOW_M = 1.5
_SUN_M = 200.0

#: So many rays at once: a large image takes no more memory than a small one.
_BAND_RAYS = 200_000


def cast(
    scene: RenderScene, origin: _Array, rays: _Array, groups: NDArray[np.uint8] | None = None
) -> tuple[NDArray[np.int32], _Array]:
    """Return what rays (k, 3) from one point hit: the geom, int32 (k,), -1 for none; and how far away, float64 (k,), in
    lengths of the ray, inf for nothing. Invisible geoms let rays through, and so do groups whose byte of six is 0.
    """
    geoms = np.empty(len(rays), np.int32)
    lengths = np.empty(len(rays))
    mj.mj_multiRay(
        scene.model,
        scene.data,
        np.ascontiguousarray(origin, np.float64),
        np.ascontiguousarray(rays, np.float64).ravel(),
        groups,
        True,
        -1,
        geomid=geoms,
        dist=lengths,
        nray=len(rays),
        cutoff=1e10,
        **_EXTRA,
    )
    lengths[geoms < 0] = np.inf
    return geoms, lengths


class RayCaster(Renderer):
    """One ray per pixel, light from the eye and the sun, the robot's shadow, a floor of squares and a hazy horizon."""

    name = "ray casting"

    def __init__(self, scene: RenderScene) -> None:
        self._scene = scene

    def render(self, eye: Eye, width: int, height: int, *, colour: bool, depth: bool) -> RenderResult:
        result = RenderResult()
        if depth:
            result.depth = np.empty((height, width), np.float32)
        if colour:
            result.colour = np.empty((height, width, 3), np.uint8)
        band = max(_BAND_RAYS // width, 1)
        for top in range(0, height, band):
            rows = slice(top, min(top + band, height))
            rays = eye.rays(width, height, rows)
            geoms, lengths = cast(self._scene, eye.place, rays)
            hidden = (lengths < NEAR_M) | (lengths > FAR_M)
            geoms[hidden], lengths[hidden] = -1, np.inf
            if depth:
                result.depth[rows] = lengths.reshape(-1, width)
            if colour:
                light = self._light(eye, rays, geoms, lengths, height)
                result.colour[rows] = (np.clip(light, 0, 1) * 255 + 0.5).reshape(-1, width, 3)
        return result

    def _light(self, eye: Eye, rays: _Array, geoms: NDArray[np.int32], lengths: _Array, height: int) -> _Array:
        """Return what each ray sees, RGB (k, 3)."""
        ways = np.linalg.norm(rays, axis=1)
        out = _sky(rays[:, 2] / ways)
        hit = np.flatnonzero(geoms >= 0)
        points = eye.place + rays[hit] * lengths[hit, None]
        facing = normals(self._scene, geoms[hit], points)
        to_eye = -(facing * rays[hit]).sum(axis=1) / ways[hit]
        pixel = 2 * np.tan(eye.fovy / 2) / height * lengths[hit] / np.maximum(to_eye, 0.02)
        base = colours(self._scene, geoms[hit], points, np.clip(1.4 - pixel / SQUARE_M * 1.4, 0, 1))
        sun = self._sun()
        sunlit = np.maximum(facing @ sun, 0) * self._in_sun(points, sun)
        bright = AMBIENT + HEADLIGHT * np.maximum(to_eye, 0) + SUNLIGHT * sunlit
        haze = np.clip((lengths[hit] - HAZE_M[0]) / (HAZE_M[1] - HAZE_M[0]), 0, 1)
        out[hit] = base * bright[:, None] * (1 - haze[:, None]) + np.array(HORIZON) * haze[:, None]
        return out

    def _sun(self) -> _Array:
        """Return the unit vector towards the sun."""
        towards = -self._scene.data.light_xdir[0]
        return towards / np.linalg.norm(towards)

    def _in_sun(self, points: _Array, sun: _Array) -> _Array:
        """Return 1 where the sun shines and 0 in the robot's shadow: (k,)."""
        lit = np.ones(len(points))
        robot = self._scene.data.qpos[:3]
        near = np.flatnonzero(((points - robot) ** 2).sum(axis=1) < _SHADOW_M**2)
        if near.size:
            lamp = robot + _SUN_M * sun
            _, reach = cast(self._scene, lamp, points[near] - lamp)
            lit[near] = reach > 1 - 2e-3 / _SUN_M
        return lit

    def close(self) -> None:
        pass


def _sky(height: _Array) -> _Array:
    """Return the sky's colour in directions of that sine of elevation: (k, 3)."""
    share = np.clip(height, 0, 1)[:, None]
    return np.array(HORIZON) * (1 - share) + np.array(ZENITH) * share


_Type = mj.mjtGeom


def _local(scene: RenderScene, geom: int, points: _Array) -> _Array:
    """Return the points in the frame of one geom."""
    return (points - scene.data.geom_xpos[geom]) @ scene.data.geom_xmat[geom].reshape(3, 3)


def normals(scene: RenderScene, geoms: NDArray[np.int32], points: _Array) -> _Array:
    """Return the outward unit normals at `points` (k, 3) on `geoms` (k,), -1 for no geom (then zeros): (k, 3)."""
    out = np.zeros(points.shape)
    for geom in np.unique(geoms[geoms >= 0]):
        here = geoms == geom
        at = _local(scene, geom, points[here])
        inside = _normal_in_geom(scene.model, geom, at)
        inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-12)
        out[here] = inside @ scene.data.geom_xmat[geom].reshape(3, 3).T
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


def colours(scene: RenderScene, geoms: NDArray[np.int32], points: _Array, contrast: _Array) -> _Array:
    """Return colours, RGB from 0 to 1: (k, 3); geom -1 is black.

    contrast: (k,), from 1 (the floor's squares are sharp) to 0 (they are too small to be told apart).
    """
    out = np.zeros(points.shape)
    hit = geoms >= 0
    out[hit] = scene.model.geom_rgba[geoms[hit], :3]
    floor = terrain.geom(scene.model, "floor")
    on_floor = geoms == floor
    square = np.floor(_local(scene, floor, points[on_floor])[:, :2] / SQUARE_M).sum(axis=1) % 2
    bright, dark = np.array(CHECKER[0]), np.array(CHECKER[1])
    mixed = 0.5 + (0.5 - square) * contrast[on_floor]
    out[on_floor] = bright + (dark - bright) * mixed[:, None]
    return out


def reflectivity(scene: RenderScene, geoms: NDArray[np.int32], points: _Array) -> _Array:
    """Return the share of light that comes back, 0 to 1: (k,), the brightness of the surface's colour."""
    return colours(scene, geoms, points, np.ones(len(points))) @ np.array([0.2126, 0.7152, 0.0722])
