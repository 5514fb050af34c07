"""DebugService: lines, arrows and a velocity command, kept in the world for the viewport to show.

Nothing here changes the simulation. A request is drawn as a whole or, when a number in it is not finite or there would
be too many drawings, not at all.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from lucky_transport.engine import Handler
from lucky_transport.messages import DebugDrawRequest, DebugDrawResponse, DebugVelocityCommand
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["MAX_DRAWINGS", "debug_handlers"]

_log = logging.getLogger("lucky_transport")

#: More than anyone can tell apart in a picture.
MAX_DRAWINGS = 2000


def debug_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handlers, by full method name; they may be called from any thread, at any time."""
    lock = threading.Lock()

    def draw(request: DebugDrawRequest) -> DebugDrawResponse:
        with lock:
            return DebugDrawResponse(_draw(world, request))

    return {"/hazel.rpc.DebugService/Draw": draw}


def _draw(world: MujocoWorlds, request: DebugDrawRequest) -> bool:
    """Keep what the request draws; returns whether it was kept."""
    drawings = [] if request.clear_previous else list(world.drawings)
    drawings += [*request.lines, *request.arrows]
    if request.velocity_command is not None:  # there is one robot to show it at, so a new one replaces the old
        drawings = [item for item in drawings if not isinstance(item, DebugVelocityCommand)]
        drawings.append(request.velocity_command)
    problem = _problem(request, len(drawings))
    if problem:  # the answer has no field for a reason
        _log.warning("nothing was drawn: %s", problem)
        return False
    world.drawings = drawings  # a new list each time: who looks at the old one is not disturbed
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
