"""All typed methods of the engine beside those that stepping itself brings, put together.

A refused request answers success=False with the value and what would do; it raises only where the response has no field
for a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from lucky_transport.engine import Handler, StreamHandler
from lucky_transport_mujoco.control import control_handlers
from lucky_transport_mujoco.controller_service import controller_handlers, controller_streams
from lucky_transport_mujoco.joint_state import joint_handlers, joint_streams
from lucky_transport_mujoco.manifest import manifest_handlers
from lucky_transport_mujoco.motion_graph_service import motion_graph_handlers
from lucky_transport_mujoco.policy_commands import policy_command_handlers
from lucky_transport_mujoco.policy_service import policy_handlers
from lucky_transport_mujoco.scene_services import SceneServices
from lucky_transport_mujoco.scene_state import scene_state_handlers, scene_state_streams
from lucky_transport_mujoco.telemetry import telemetry_handlers, telemetry_streams
from lucky_transport_mujoco.world import MujocoWorlds

__all__ = ["MujocoServices"]


class MujocoServices:
    """The services of one engine. `scene`: what is seen of it; its `cameras` take the pictures of a step."""

    def __init__(self, world: MujocoWorlds, renderer: str) -> None:
        """`renderer`: see `lucky_transport_mujoco.render_thread.RenderThread`."""
        self.scene = SceneServices(world, renderer)
        self.handlers: Mapping[str, Handler] = {
            **manifest_handlers(world),
            **controller_handlers(world),
            **policy_handlers(world),
            **policy_command_handlers(world),
            **motion_graph_handlers(world),
            **joint_handlers(world),
            **scene_state_handlers(world),
            **control_handlers(world),
            **telemetry_handlers(world),
            **self.scene.handlers,
        }
        self.streams: Mapping[str, StreamHandler] = {
            **controller_streams(world),
            **joint_streams(world),
            **scene_state_streams(world),
            **telemetry_streams(world),
            **self.scene.streams,
        }

    def close(self) -> None:
        """End what draws; idempotent."""
        self.scene.close()
