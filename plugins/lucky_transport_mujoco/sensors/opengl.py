"""Images by OpenGL: MuJoCo's own renderer, without a window."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.bindings import mj
from lucky_transport_mujoco.sensors.render_model import FAR_M, NEAR_M
from lucky_transport_mujoco.sensors.render_scene import Eye, Renderer, RenderResult, RenderScene

#: What drivers that draw on the processor call themselves.
_SOFTWARE = ("llvmpipe", "softpipe", "software", "swiftshader", "swr")

#: Room for the robot's geoms, several times over.
_MAX_GEOMS = 500


def platforms() -> list[str]:
    """Return the modules with windowless OpenGL to try, best first, as MuJoCo's variable MUJOCO_GL has it.

    Empty when that switches OpenGL off. Unset (or naming a kind that needs a window) means any that works.
    """
    context: Any = getattr(mj, "GLContext", None)
    if context is None:
        return []
    module = context.__module__
    if module.startswith(("mujoco.egl", "mujoco.osmesa", "mujoco.cgl")):
        return [module]
    return ["mujoco.egl", "mujoco.osmesa"]


def _device() -> str:
    """Return what the current context draws with, as its driver names it."""
    gl = importlib.import_module("OpenGL.GL")
    return gl.glGetString(gl.GL_RENDERER).decode()


class OpenGL(Renderer):
    """Draws in the thread that made it, which owns the OpenGL context. Raises what the platform's OpenGL raises."""

    def __init__(self, scene: RenderScene, platform: str) -> None:
        self._scene = scene
        self._ground = scene.ground
        self._size = (640, 480)
        self._gl: Any = importlib.import_module(platform).GLContext(*self._size)
        try:
            self._gl.make_current()
            device = _device()
            if device.lower().startswith(_SOFTWARE):  # no smoothing of edges: images at a third of the time
                scene.model.vis.quality.offsamples = 0
            self.name = f"OpenGL ({device})"
            self._context: Any = mj.MjrContext(scene.model, mj.mjtFontScale.mjFONTSCALE_100)
        except BaseException:
            self._gl.free()
            raise
        mj.mjr_setBuffer(mj.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mj.mjtDepthMap.mjDEPTH_ZEROFAR
        self._mjv_scene = mj.MjvScene(scene.model, _MAX_GEOMS)
        self._mjv_scene.flags[mj.mjtRndFlag.mjRND_HAZE] = False
        self._mjv_scene.flags[mj.mjtRndFlag.mjRND_FOG] = True
        self._mjv_scene.flags[mj.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mj.MjvOption()
        self._camera = mj.MjvCamera()
        self._camera.type = mj.mjtCamera.mjCAMERA_USER

    def render(self, eye: Eye, width: int, height: int, *, colour: bool, depth: bool) -> RenderResult:
        self._gl.make_current()
        if self._ground != self._scene.ground:
            mj.mjr_uploadHField(self._scene.model, self._context, 0)
            self._ground = self._scene.ground
        if width > self._size[0] or height > self._size[1]:  # only ever larger: streams of several sizes take turns
            self._size = max(width, self._size[0]), max(height, self._size[1])
            mj.mjr_resizeOffscreen(*self._size, self._context)
        self._look(eye)
        rect = mj.MjrRect(0, 0, width, height)
        result = RenderResult()
        if colour:
            result.colour = np.empty((height, width, 3), np.uint8)
            mj.mjr_render(rect, self._mjv_scene, self._context)
            mj.mjr_readPixels(result.colour, None, rect, self._context)
            result.colour = result.colour[::-1]
        if depth:
            result.depth = self._depth(rect)
        return result

    def _look(self, eye: Eye) -> None:
        """Arrange the scene as seen from `eye`."""
        for camera in self._mjv_scene.camera:
            camera.pos, camera.forward, camera.up = eye.place, eye.forward, eye.up
            camera.frustum_near, camera.frustum_far = NEAR_M, FAR_M
            camera.frustum_center = camera.frustum_width = 0
            camera.frustum_top = NEAR_M * np.tan(eye.fovy / 2)
            camera.frustum_bottom = -camera.frustum_top
            camera.orthographic = 0
        scene = self._scene
        mj.mjv_updateScene(
            scene.model, scene.data, self._options, None, self._camera, mj.mjtCatBit.mjCAT_ALL, self._mjv_scene
        )

    def _depth(self, rect: Any) -> NDArray[np.float32]:
        flags = self._mjv_scene.flags
        before = flags.copy()
        # one flat colour per geom: no blending between a near and a far surface
        flags[mj.mjtRndFlag.mjRND_SEGMENT] = flags[mj.mjtRndFlag.mjRND_IDCOLOR] = True
        mj.mjr_render(rect, self._mjv_scene, self._context)
        flags[:] = before
        near_is_one = np.empty((rect.height, rect.width), np.float32)
        mj.mjr_readPixels(None, near_is_one, rect, self._context)
        inverse = NEAR_M + near_is_one[::-1].astype(np.float64) * (FAR_M - NEAR_M)
        metres = np.where(near_is_one[::-1] > 0, NEAR_M * FAR_M / inverse, np.inf)
        return metres.astype(np.float32)

    def close(self) -> None:
        self._gl.make_current()
        self._context.free()
        self._gl.free()
