"""Images by ray casting for machines without OpenGL, and the hits and colours that the lidar reads too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.sensors.render_scene import RenderScene

_Array = NDArray[np.float64]

#: MuJoCo 4 tells the normals of what it hits. With MuJoCo 3 every surface counts as facing the ray.
_HAS_NORMALS = "normal:" in (mj.mj_multiRay.__doc__ or "")

#: Colours of the MJCF's textures, RGB from 0 to 1, and the side of one square of its floor.
_ZENITH = np.array([0.36, 0.55, 0.78])
_CHECKER = np.array([[0.36, 0.41, 0.40], [0.47, 0.52, 0.50]])
_SQUARE_M = 0.5

#: So many rays at once: a large image takes no more memory than a small one.
_BAND_RAYS = 200_000


def cast(
    scene: RenderScene, origin: _Array, rays: _Array, groups: NDArray[np.uint8] | None = None
) -> tuple[NDArray[np.int32], _Array, _Array]:
    """Return what rays (k, 3) from one point hit: the geom, int32 (k,), -1 for none; how far away, float64 (k,), in
    lengths of the ray, inf for nothing; and the surface's unit normals, float64 (k, 3).

    Invisible geoms let rays through, and so do groups whose byte of six is 0.
    """
    geoms, lengths = np.empty(len(rays), np.int32), np.empty(len(rays))
    normals = -rays / np.linalg.norm(rays, axis=1, keepdims=True)
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
        **({"normal": normals.ravel()} if _HAS_NORMALS else {}),
    )
    lengths[geoms < 0] = np.inf
    return geoms, lengths, normals


def colours(scene: RenderScene, geoms: NDArray[np.int32], points: _Array, blurred: NDArray[np.bool_]) -> _Array:
    """Return colours, RGB from 0 to 1, of `points` (k, 3) on `geoms` (k,): (k, 3).

    blurred: (k,), where the floor's squares are too small to be told apart.
    """
    out: _Array = scene.model.geom_rgba[geoms, :3].astype(np.float64)
    floor = geoms == scene.floor
    turned = scene.data.geom_xmat[scene.floor].reshape(3, 3)
    squares = np.floor((points[floor] @ turned)[:, :2] / _SQUARE_M).sum(axis=1).astype(int) % 2
    out[floor] = np.where(blurred[floor, None], _CHECKER.mean(axis=0), _CHECKER[squares])
    return out


class RayCaster:
    """One ray per pixel, light from the eye and the sun, a floor of squares and a hazy horizon; no shadow."""

    name = "ray casting"

    def __init__(self, scene: RenderScene) -> None:
        self._scene = scene

    def colour(self, width: int, height: int) -> NDArray[np.uint8]:
        """Return RGB, uint8 (height, width, 3), top row first."""
        out = np.empty((height, width, 3), np.uint8)
        for rows, rays, (geoms, lengths, normals) in self._bands(width, height):
            light = self._light(rays, geoms, lengths, normals, 2 * self._scene.eye.opening / height)
            out[rows] = (np.clip(light, 0, 1) * 255 + 0.5).reshape(-1, width, 3)
        return out

    def depth(self, width: int, height: int) -> NDArray[np.float32]:
        """Return metres along the axis of sight, float32 (height, width), inf where nothing is."""
        out = np.empty((height, width), np.float32)
        for rows, _, (_, lengths, _) in self._bands(width, height):
            out[rows] = lengths.reshape(-1, width)
        return out

    def _bands(
        self, width: int, height: int
    ) -> Iterator[tuple[slice, _Array, tuple[NDArray[np.int32], _Array, _Array]]]:
        limits = self._scene.model.vis.map
        step = max(_BAND_RAYS // width, 1)
        for top in range(0, height, step):
            rows = slice(top, min(top + step, height))
            rays = self._scene.eye.rays(width, height, rows)
            geoms, lengths, normals = cast(self._scene, self._scene.eye.place, rays)
            hidden = (lengths < limits.znear) | (lengths > limits.zfar)
            geoms[hidden], lengths[hidden] = -1, np.inf
            yield rows, rays, (geoms, lengths, normals)

    def _light(self, rays: _Array, geoms: NDArray[np.int32], lengths: _Array, normals: _Array, pixel: float) -> _Array:
        """Return what each ray sees, RGB (k, 3); `pixel` is the width of a pixel in a metre's distance."""
        model, ways = self._scene.model, np.linalg.norm(rays, axis=1)
        horizon, sun = model.vis.rgba.haze[:3], -self._scene.data.light_xdir[0]
        height = np.clip(rays[:, 2] / ways, 0, 1)[:, None]
        out = horizon * (1 - height) + _ZENITH * height
        hit = np.flatnonzero(geoms >= 0)
        rays, lengths, normals = rays[hit], lengths[hit], normals[hit]
        to_eye = np.maximum(-(normals * rays).sum(axis=1) / ways[hit], 0.02)
        blurred = pixel * lengths / to_eye > _SQUARE_M
        base = colours(self._scene, geoms[hit], self._scene.eye.place + rays * lengths[:, None], blurred)
        head = model.vis.headlight
        bright = head.ambient[0] + head.diffuse[0] * to_eye + model.light_diffuse[0, 0] * np.maximum(normals @ sun, 0)
        start, end = model.vis.map.fogstart, model.vis.map.fogend
        haze = np.clip((lengths - start) / (end - start), 0, 1)[:, None]
        out[hit] = base * bright[:, None] * (1 - haze) + horizon * haze
        return out

    def close(self) -> None:
        """Do nothing: it holds nothing."""
