"""What a person or program sees of the scene: entities, cameras, viewport, debug drawings, lidar; put together.

services = SceneServices(world)
engine.services |= services.handlers        # and engine.streams |= services.streams
services.cameras.check(env, requests)       # before a step that wants pictures
services.cameras.frames(env, requests)      # after it
services.close()
"""

from __future__ import annotations

from collections.abc import Mapping

from lucky_transport.engine import Handler, StreamHandler
from lucky_transport_mujoco.cameras import Cameras
from lucky_transport_mujoco.debug_drawing import debug_handlers
from lucky_transport_mujoco.entities import Entities
from lucky_transport_mujoco.lidar import Lidar
from lucky_transport_mujoco.render_thread import RenderThread
from lucky_transport_mujoco.scene import scene_handlers
from lucky_transport_mujoco.viewport import Viewport
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["SceneServices"]


class SceneServices:
    """The services of one engine. `renderer`: see `lucky_transport_mujoco.render_thread.RenderThread`."""

    def __init__(self, world: MujocoWorlds, renderer: str = "auto") -> None:
        """Nothing is drawn and no thread is started before the first picture is asked for.

        Raises SpecError for a renderer that does not exist.
        """
        self._world = world
        self._entities = Entities(world)
        self._studio = RenderThread(renderer)
        self._viewport = Viewport(world, self._studio)
        self._lidar = Lidar(world)
        self.cameras = Cameras(world, self._entities, self._studio)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Handlers of the unary methods of Scene, Camera, Viewport, Debug and Lidar, by full method name."""
        return {
            **scene_handlers(self._world, self._entities),
            **self.cameras.handlers,
            **self._viewport.handlers,
            **debug_handlers(self._world),
            **self._lidar.handlers,
        }

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        """Handlers of the streams of Camera and Viewport, by full method name."""
        return {**self.cameras.streams, **self._viewport.streams}

    def close(self) -> None:
        """End the thread that draws; idempotent. Streams that still run end with ClosedError."""
        self._studio.close()
