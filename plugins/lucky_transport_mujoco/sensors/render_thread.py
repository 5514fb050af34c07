"""The thread that draws images, by the best renderer that works on this machine.

OpenGL is tried at the first image, once per process; without it images come from ray casting, with the same views and
colours.
"""

from __future__ import annotations

import atexit
import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import Busy, ClosedError, PeerTimeout, SpecError
from lucky_transport.futures import CallFuture, settle
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport_mujoco.sensors.render_scene import RenderScene, Snapshot, draw
from lucky_transport_mujoco.sensors.renderers import OpenGL, RayCaster, platforms

_log = logging.getLogger("lucky_transport")

T = TypeVar("T")

RENDERERS = ("auto", "opengl", "rays")

#: The longest side of an image: beyond it some OpenGL refuses.
MAX_SIDE = 4096

#: Of a colour image: red, green, blue and opacity.
CHANNELS = 4

#: The slowest image, a large one by ray casting on a busy machine, takes a few seconds.
_PATIENCE_S = 60.0
_MOST_WAITING = 1 << 16
#: How long a closing engine waits for the image that is being drawn.
_CLOSING_S = 10.0

#: Platforms that were found not to work in this process, with the reason; and what was logged.
_broken: dict[str, str] = {}
_logged: set[str] = set()

#: Those that may have a renderer.
_drawing: weakref.WeakSet[RenderThread] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One image, with copies of all it needs, so that the engine goes on.

    snapshot, view: of what and from where (a camera's name or `render_scene.BEHIND`). drawings: debug messages that
    OpenGL draws in it. memory: of exactly a colour image's size; it is drawn into that.
    """

    snapshot: Snapshot
    view: str
    width: int
    height: int
    drawings: Sequence[Any] = ()
    memory: memoryview | None = None


class RenderThread:
    """Takes requests from any thread. `renderer` is "auto", or "opengl" or "rays" for that one alone."""

    def __init__(self, renderer: str = "auto") -> None:
        """Nothing is started before the first request.

        Raises SpecError for another renderer.
        """
        if renderer not in RENDERERS:
            raise SpecError(f"renderer {renderer!r}: expected one of {', '.join(RENDERERS)}")
        self._wanted = renderer
        self._thread = WorkerPool("images", 1, _MOST_WAITING)
        self._scene: RenderScene | None = None
        self._renderer: OpenGL | RayCaster | None = None
        self._closed = False

    def colour(self, request: RenderRequest) -> NDArray[np.uint8]:
        """Return the image, uint8 (height, width, 4), RGBA, opaque, top row first.

        Raises SpecError (no such renderer here), ClosedError, PeerTimeout.
        """
        return self._drawn(self._colour, request)

    def depth(self, request: RenderRequest) -> NDArray[np.float32]:
        """Return the distances, float32 (height, width), in metres along the axis of sight, inf for the sky.

        Raises the errors of `colour`.
        """
        return self._drawn(self._depth, request)

    def _drawn(self, work: Callable[[RenderRequest], T], request: RenderRequest) -> T:
        future: CallFuture[T] = CallFuture()
        try:
            self._thread.run(lambda: settle(future, lambda: work(request)))
            return future.result(_PATIENCE_S)
        except Busy as error:
            if not self._closed:
                raise
            raise ClosedError("the engine is closing: no more images", backend="mujoco") from error
        except TimeoutError as error:
            raise PeerTimeout(f"no image within {_PATIENCE_S} s", backend="mujoco") from error

    def close(self) -> None:
        """Finish the images asked for so far and end the thread, but wait no longer than 10 s; idempotent."""
        if not self._closed:
            self._closed = True
            with suppress(Busy):  # no thread can be started: there is none to end
                self._thread.run(self._release)
            self._thread.close(_CLOSING_S)

    def _colour(self, request: RenderRequest) -> NDArray[np.uint8]:
        renderer = self._ready(request)
        memory = bytearray(request.height * request.width * CHANNELS) if request.memory is None else request.memory
        out = np.frombuffer(memory, np.uint8).reshape(request.height, request.width, CHANNELS)
        out[..., :3] = renderer.colour(request.width, request.height)
        out[..., 3] = 255
        return out

    def _depth(self, request: RenderRequest) -> NDArray[np.float32]:
        renderer = self._ready(request)
        return renderer.depth(request.width, request.height)

    def _ready(self, request: RenderRequest) -> OpenGL | RayCaster:
        """Return the renderer, made now if need be, looking at what is requested."""
        if self._scene is None:
            self._scene = RenderScene()
        if self._renderer is None:
            self._renderer = _renderer(self._scene, self._wanted)
            _drawing.add(self)
            _close_at_exit()
        self._scene.show(request.snapshot)
        self._scene.look(request.view)
        draw(self._scene.mjv, request.drawings, request.snapshot.yaw)
        return self._renderer

    def _release(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
        self._renderer = self._scene = None


def _renderer(scene: RenderScene, wanted: str) -> OpenGL | RayCaster:
    """Return the best renderer of that kind that works here; raises SpecError when "opengl" does not."""
    if wanted != "rays":
        for platform in platforms():
            if platform in _broken:
                continue
            try:
                found = OpenGL(scene, platform)
            except Exception as error:  # OpenGL's loaders raise anything, from ImportError to AttributeError
                _broken[platform] = f"{type(error).__name__}: {error}"
                continue
            _log_once(logging.INFO, f"images are drawn by {found.name}")
            return found
    reasons = "; ".join(f"{platform}: {reason}" for platform, reason in _broken.items()) or "switched off by MUJOCO_GL"
    if wanted == "opengl":
        raise SpecError(f"renderer 'opengl': no OpenGL works here ({reasons})", hint="install EGL, or use 'auto'")
    if wanted == "auto":
        _log_once(
            logging.WARNING, f"no OpenGL works here ({reasons}): images are drawn by ray casting, about 5 a second"
        )
    return RayCaster(scene)


@functools.cache
def _close_at_exit() -> None:
    """Have what still draws at the exit closed before its platform's display, which was opened earlier, is."""
    atexit.register(lambda: [one.close() for one in list(_drawing)])


def _log_once(level: int, text: str) -> None:
    if text not in _logged:
        _logged.add(text)
        _log.log(level, "%s", text)
