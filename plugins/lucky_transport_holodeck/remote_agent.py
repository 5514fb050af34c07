"""An agent in a Holodeck engine, as its client sees it: the blocks through which it acts and perceives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.shm.files.private_file import remove_private
from lucky_transport_holodeck.agent_types import SPHERE_MOVES, TELEPORT_NUMBERS, TeleportFlag
from lucky_transport_holodeck.blocks import map_block
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.scenario import AgentPlan


class RemoteAgent:
    """`sensors`: name -> live view of the sensor's block, changed by each tick."""

    def __init__(self, plan: AgentPlan, names: Names) -> None:
        self.plan = plan
        self._paths: list[Path] = []

        def block(suffix: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
            self._paths.append(names.block(f"{plan.name}{suffix}"))
            return map_block(self._paths[-1], dtype, shape)

        self._action = block("", "float32", (plan.kind.action_size,))
        self._flag = block("_teleport_flag", "uint8", (1,))
        self._place = block("_teleport_command", "float32", (TELEPORT_NUMBERS,))
        self._scheme = block("_control_scheme", "uint8", (1,))
        self.sensors = {
            each.name: block(f"_{each.name}_sensor_data", each.shape.dtype, each.shape.shape) for each in plan.sensors
        }
        self.set_control_scheme(plan.control_scheme)

    def act(self, action: Any) -> None:
        """Have the agent act so from the next tick on; a shorter action leaves the rest at 0.

        In the SphereRobot's discrete scheme the action is one number, 0 to 3. Raises SpecError for what does not fit.
        """
        values = np.ravel(np.asarray(action, np.float32))
        if self.plan.kind.wire_name == "SphereRobot" and self._scheme[0] == 0 and values.size == 1:
            if values[0] not in range(len(SPHERE_MOVES)):
                raise SpecError(f"agent {self.plan.name!r}: move {values[0]:g}, expected 0 to 3", backend="holodeck")
            values = np.array(SPHERE_MOVES[int(values[0])], np.float32)
        if values.size > self._action.size:
            raise SpecError(
                f"agent {self.plan.name!r} takes {self._action.size} values, got {values.size}",
                backend="holodeck",
            )
        self._action[: values.size] = values
        self._action[values.size :] = 0

    def stop_acting(self) -> None:
        """Make the action zeros."""
        self._action[:] = 0

    def set_control_scheme(self, scheme: int) -> None:
        """Choose how actions are meant: a place in `AgentType.schemes`; raises SpecError."""
        if not 0 <= scheme < len(self.plan.kind.schemes):
            raise SpecError(
                f"{self.plan.kind.scenario_name} has control schemes 0 to {len(self.plan.kind.schemes) - 1}, "
                f"not {scheme}",
                backend="holodeck",
            )
        self._scheme[0] = scheme

    def teleport(self, location: Sequence[float] | None = None, rotation: Sequence[float] | None = None) -> None:
        """Put the agent elsewhere (metres), turn it (roll, pitch, yaw in degrees), or both, with the next tick.

        Two calls before a tick add up.
        """
        if location is not None:
            self._place[0:3] = location
            self._flag[0] |= TeleportFlag.LOCATION
        if rotation is not None:
            self._place[3:6] = rotation
            self._flag[0] |= TeleportFlag.ROTATION

    def set_physics_state(
        self,
        location: Sequence[float],
        rotation: Sequence[float],
        velocity: Sequence[float],
        angular_velocity: Sequence[float],
    ) -> None:
        """Set place, rotation, velocity (m/s) and angular velocity (degrees/s) with the next tick."""
        for at, values in zip(
            range(0, TELEPORT_NUMBERS, 3), (location, rotation, velocity, angular_velocity), strict=True
        ):
            self._place[at : at + 3] = values
        self._flag[0] |= TeleportFlag.PHYSICS_STATE

    def unlink(self) -> None:
        """Remove the blocks; arrays stay valid."""
        for path in self._paths:
            remove_private(path)
