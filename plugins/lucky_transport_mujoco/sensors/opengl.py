"""Images by OpenGL, without a window.

`mujoco.Renderer` draws with the one OpenGL that MUJOCO_GL chose when MuJoCo was imported, by default a window's, and in
one size; these images need the windowless one that works, in any size.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.sensors.render_scene import RenderScene

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
