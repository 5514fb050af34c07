"""ViewportService and DebugService: the scene from behind the robot, with the debug drawings in it.

Nothing here changes the simulation.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.messages import (
    DebugDrawRequest,
    DebugDrawResponse,
    DebugVelocityCommand,
    GetViewportInfoRequest,
    GetViewportInfoResponse,
    ImageFrame,
    StartViewportStreamRequest,
    ViewportStreamConfig,
)
from lucky_transport_mujoco.lookup import rate_hz, unknown_name
from lucky_transport_mujoco.sensors.cameras import colour_frame, size
from lucky_transport_mujoco.sensors.overlay import strokes_of
from lucky_transport_mujoco.sensors.render_scene import BEHIND, Snapshot
from lucky_transport_mujoco.sensors.render_thread import CHANNELS, RenderRequest, RenderThread
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

NAME = "Main"

_PREFIX = "/hazel.rpc.ViewportService/"
_NATIVE = (1280, 720)


class Viewport:
    """The one viewport, "Main"; any number of streams show it, each in its own size."""

    def __init__(self, world: MujocoWorlds, render_thread: RenderThread) -> None:
        self._world = world
        self._render_thread = render_thread
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
            raise unknown_name("viewport", request.viewport_name, [NAME])
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
                wanted = RenderRequest(snapshot, BEHIND, width, height, strokes_of(drawings, snapshot.yaw), memory)
                yield colour_frame(self._render_thread.colour(wanted), tick + 1, memory)
        finally:
            with self._lock:
                del self._running[key]


_log = logging.getLogger("lucky_transport")

#: More than anyone can tell apart in an image.
MAX_DRAWINGS = 2000


def debug_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name; they may be called from any thread, at any time."""
    lock = threading.Lock()

    def draw(request: DebugDrawRequest) -> DebugDrawResponse:
        with lock:
            return DebugDrawResponse(_draw(world, request))

    return {"/hazel.rpc.DebugService/Draw": draw}


def _draw(world: MujocoWorlds, request: DebugDrawRequest) -> bool:
    """Keep all that the request draws, or nothing; returns whether it was kept."""
    drawings = [] if request.clear_previous else list(world.drawings)
    drawings += [*request.lines, *request.arrows]
    if request.velocity_command is not None:  # there is one robot to show it at, so a new one replaces the old
        drawings = [item for item in drawings if not isinstance(item, DebugVelocityCommand)]
        drawings.append(request.velocity_command)
    problem = _problem(request, len(drawings))
    if problem:  # the answer has no field for a reason
        _log.warning("nothing was drawn: %s", problem)
        return False
    world.drawings = drawings  # a new list: a stream may still read the old one
    return True


def _problem(request: DebugDrawRequest, total: int) -> str:
    if total > MAX_DRAWINGS:
        return f"{total} drawings, at most {MAX_DRAWINGS}: use clear_previous"
    if not all(math.isfinite(number) for number in _numbers(request)):
        return "a coordinate, colour or scale is not finite"
    return ""


def _numbers(message: Any) -> Iterator[float]:
    """Yield every number in a message and in those inside it."""
    if isinstance(message, list):
        for item in message:
            yield from _numbers(item)
    elif is_dataclass(message):
        for item in fields(message):
            yield from _numbers(getattr(message, item.name))
    elif isinstance(message, float):
        yield message
