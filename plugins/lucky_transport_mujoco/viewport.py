"""ViewportService: the scene as a person would look at it, from behind the robot, with the debug drawings in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.messages import (
    GetViewportInfoRequest,
    GetViewportInfoResponse,
    ImageFrame,
    StartViewportStreamRequest,
    ViewportStreamConfig,
)
from lucky_transport_mujoco.frames import colour_frame, size, unknown
from lucky_transport_mujoco.rates import rate_hz
from lucky_transport_mujoco.render_thread import CHANNELS, RenderRequest, RenderThread
from lucky_transport_mujoco.stage import Orbit, Snapshot
from lucky_transport_mujoco.strokes import strokes_of
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

__all__ = ["NAME", "Viewport"]

NAME = "Main"

_PREFIX = "/hazel.rpc.ViewportService/"
_NATIVE = (1280, 720)

#: It follows the robot's place but not its turning, which would make a watcher dizzy.
_VIEW = Orbit(azimuth=-2.3, elevation=0.33, distance=2.1)


class Viewport:
    """The one viewport, "Main"; any number of streams show it, each in its own size."""

    def __init__(self, world: MujocoWorlds, studio: RenderThread) -> None:
        self._world = world
        self._studio = studio
        self._lock = threading.Lock()
        self._running: dict[int, ViewportStreamConfig] = {}
        self._streams_ever = 0

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Handlers of the unary methods, by full method name."""
        return {_PREFIX + "GetViewportInfo": self._info}

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        """Handlers of the streams, by full method name."""
        return {_PREFIX + "StreamViewport": self._stream}

    def _info(self, _: GetViewportInfoRequest) -> GetViewportInfoResponse:
        """Answer with the stream that began last and still runs."""
        with self._lock:
            latest = self._running[max(self._running)] if self._running else None
        config = latest or ViewportStreamConfig(False, NAME, 0, *_NATIVE)
        return GetViewportInfoResponse([NAME], config)

    def _stream(self, request: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        if request.viewport_name not in ("", NAME):
            raise unknown("viewport", request.viewport_name, [NAME])
        width, height = size(request.width, request.height, _NATIVE)
        fps = rate_hz(request.target_fps)
        with self._lock:
            self._streams_ever += 1
            key = self._streams_ever
            self._running[key] = ViewportStreamConfig(True, NAME, fps, width, height)
        try:
            for tick in call.ticks(fps):
                with call.between_steps():
                    snapshot = Snapshot.of(self._world, SHOWN)
                    drawings = self._world.drawings
                memory = call.image_buffer(width * height * CHANNELS)
                order = RenderRequest(snapshot, _VIEW, width, height, strokes_of(drawings, snapshot.yaw), memory)
                yield colour_frame(self._studio.colour(order), tick + 1, memory)
        finally:
            with self._lock:
                del self._running[key]
