"""ViewportService and DebugService: the scene from behind the robot, with the debug drawings in it.

Nothing here changes the simulation.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.errors import SpecError
from lucky_transport_mujoco.sensors.cameras import colour_frame, size
from lucky_transport_mujoco.sensors.render_scene import BEHIND, MAX_DRAWINGS, Snapshot
from lucky_transport_mujoco.sensors.render_thread import CHANNELS, RenderRequest, RenderThread
from lucky_transport_mujoco.services.service import Service, rate_hz, unknown_name
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

NAME = "Main"

_NATIVE = (1280, 720)

_log = logging.getLogger("lucky_transport")


class ViewportService(Service):
    """The one viewport, "Main"; any number of streams show it, each in its own size."""

    service = "ViewportService"

    def __init__(self, world: MujocoWorlds, render_thread: RenderThread) -> None:
        super().__init__(world)
        self._render_thread = render_thread
        self._lock = threading.Lock()
        self._running: list[m.ViewportStreamConfig] = []

    def get_viewport_info(self, _: m.GetViewportInfoRequest) -> m.GetViewportInfoResponse:
        """Answer with the stream that began last and still runs."""
        with self._lock:
            config = self._running[-1] if self._running else m.ViewportStreamConfig(False, NAME, 0, *_NATIVE)
        return m.GetViewportInfoResponse([NAME], config)

    def stream_viewport(self, request: m.StartViewportStreamRequest, call: Call) -> Iterator[m.ImageFrame]:
        if request.viewport_name not in ("", NAME):
            raise unknown_name("no viewport", request.viewport_name, [NAME])
        width, height = size(request.width, request.height, _NATIVE)
        fps = rate_hz(request.target_fps)
        config = m.ViewportStreamConfig(True, NAME, fps, width, height)
        with self._lock:
            self._running.append(config)
        try:
            for tick in call.ticks(fps):
                with call.between_steps():
                    snapshot = Snapshot.of(self.world, SHOWN)
                    drawings = self.world.drawings
                memory = call.image_buffer(width * height * CHANNELS)
                wanted = RenderRequest(snapshot, BEHIND, width, height, drawings, memory)
                yield colour_frame(self._render_thread.colour(wanted), tick + 1, memory)
        finally:
            with self._lock:
                self._running = [each for each in self._running if each is not config]


class DebugService(Service):
    """What is drawn in the viewport."""

    service = "DebugService"

    def __init__(self, world: MujocoWorlds) -> None:
        super().__init__(world)
        self._lock = threading.Lock()

    def draw(self, request: m.DebugDrawRequest) -> None:
        """Keep all that the request draws, or nothing; from any thread."""
        with self._lock:
            self._keep(request)

    def _keep(self, request: m.DebugDrawRequest) -> None:
        drawings = [] if request.clear_previous else list(self.world.drawings)
        drawings += [*request.lines, *request.arrows]
        if request.velocity_command is not None:  # there is one robot to show it at, so a new one replaces the old
            drawings = [item for item in drawings if not isinstance(item, m.DebugVelocityCommand)]
            drawings.append(request.velocity_command)
        problem = _problem(request, len(drawings))
        if problem:
            _log.warning("nothing was drawn: %s", problem)  # the answer has no field for a reason
            raise SpecError(problem)
        self.world.drawings = drawings  # a new list: a stream may still read the old one


def _problem(request: m.DebugDrawRequest, total: int) -> str:
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
