"""What draws an image: OpenGL without a window, or ray casting, whose hits and colours the lidar reads too.

`mujoco.Renderer` draws with the one OpenGL that MUJOCO_GL chose when MuJoCo was imported, by default a window's, and in
one size; these images need the windowless one that works, in any size.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.sensors.render_scene import RenderScene

_Array = NDArray[np.float64]

#: What drivers that draw on the processor call themselves.
_SOFTWARE = ("llvmpipe", "softpipe", "software", "swiftshader", "swr")


def platforms() -> list[str]:
    """Return the modules with windowless OpenGL to try, best first, as MuJoCo's variable MUJOCO_GL has it.

    Empty when that switches OpenGL off. Unset (or naming a kind that needs a window) means any that works.
    """
    context: Any = getattr(mj, "GLContext", None)
    if context is None:
        return []
    module = context.__module__
    return [module] if module.startswith(("mujoco.egl", "mujoco.osmesa")) else ["mujoco.egl", "mujoco.osmesa"]


class OpenGL:
    """Draws what its scene looks at, in the thread that made it. Raises what the platform's OpenGL raises."""

    def __init__(self, scene: RenderScene, platform: str) -> None:
        self._scene = scene
        self._ground = scene.ground
        self._size = (640, 480)
        self._gl: Any = importlib.import_module(platform).GLContext(*self._size)
        try:
            self._gl.make_current()
            gl = importlib.import_module("OpenGL.GL")
            device = gl.glGetString(gl.GL_RENDERER).decode()
            if device.lower().startswith(_SOFTWARE):  # no smoothing of edges: images at a third of the time
                scene.model.vis.quality.offsamples = 0
            self.name = f"OpenGL ({device})"
            self._context: Any = mj.MjrContext(scene.model, mj.mjtFontScale.mjFONTSCALE_100)
        except Exception:
            self._gl.free()
            raise
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mj.mjtDepthMap.mjDEPTH_ZEROFAR

    def colour(self, width: int, height: int) -> NDArray[np.uint8]:
        """Return RGB, uint8 (height, width, 3), top row first."""
        out = np.empty((height, width, 3), np.uint8)
        self._draw(width, height, out, None)
        return out[::-1]

    def depth(self, width: int, height: int) -> NDArray[np.float32]:
        """Return metres along the axis of sight, float32 (height, width), inf where nothing is."""
        near_is_one = np.empty((height, width), np.float32)
        flags = self._scene.mjv.flags
        before = flags.copy()
        # one flat colour per geom: no blending between a near and a far surface
        flags[mj.mjtRndFlag.mjRND_SEGMENT] = flags[mj.mjtRndFlag.mjRND_IDCOLOR] = True
        self._draw(width, height, None, near_is_one)
        flags[:] = before
        limits = self._scene.model.vis.map
        inverse = limits.znear + near_is_one[::-1].astype(np.float64) * (limits.zfar - limits.znear)
        return np.where(near_is_one[::-1] > 0, limits.znear * limits.zfar / inverse, np.inf).astype(np.float32)

    def _draw(
        self, width: int, height: int, colour: NDArray[np.uint8] | None, near_is_one: NDArray[np.float32] | None
    ) -> None:
        self._gl.make_current()
        if self._ground != self._scene.ground:
            mj.mjr_uploadHField(self._scene.model, self._context, 0)
            self._ground = self._scene.ground
        if width > self._size[0] or height > self._size[1]:  # only ever larger: streams of several sizes take turns
            self._size = max(width, self._size[0]), max(height, self._size[1])
            mj.mjr_resizeOffscreen(*self._size, self._context)
        rect = mj.MjrRect(0, 0, width, height)
        mj.mjr_render(rect, self._scene.mjv, self._context)
        mj.mjr_readPixels(colour, near_is_one, rect, self._context)

    def close(self) -> None:
        """Release what the renderer holds."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


#: MuJoCo 4 tells the normals of what it hits. With MuJoCo 3 every surface counts as level, which the ground mostly is.
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
    normals = np.tile([0.0, 0.0, 1.0], (len(rays), 1))
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
