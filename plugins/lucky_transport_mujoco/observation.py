"""What a policy sees: one table of named terms, in the order of the flat observation.

Names and sizes in the spec and the numbers in a frame come from this table alone. SI units, base frame, no scaling and
no noise: what a policy wants to change, it changes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.motion import Motion
from lucky_transport_mujoco.robot import Robot

__all__ = ["Sight", "names", "observe", "terms"]


@dataclass(frozen=True, slots=True)
class Sight:
    """What the terms are computed from, for k envs. command: float64 (k, 3). action: float32 (k, nu), the last one."""

    motion: Motion
    command: NDArray[np.float64]
    action: NDArray[np.float32]


_AXES = ("x", "y", "z")
_COMMAND = ("x", "y", "yaw")

#: Term -> (names of its elements, None for the joints'; value (k, elements)).
_TERMS: dict[str, tuple[tuple[str, ...] | None, Callable[[Sight], NDArray[np.floating]]]] = {
    "base_lin_vel": (_AXES, lambda sight: sight.motion.lin_vel),
    "base_ang_vel": (_AXES, lambda sight: sight.motion.ang_vel),
    "projected_gravity": (_AXES, lambda sight: sight.motion.gravity),
    "velocity_command": (_COMMAND, lambda sight: sight.command),
    "joint_pos": (None, lambda sight: sight.motion.joint_pos),
    "joint_vel": (None, lambda sight: sight.motion.joint_vel),
    "last_action": (None, lambda sight: sight.action),
}


def terms(robot: Robot) -> tuple[tuple[str, int], ...]:
    """Return (name, elements) of each term, in order."""
    return tuple((name, len(parts or robot.joint_names)) for name, (parts, _) in _TERMS.items())


def names(robot: Robot) -> tuple[str, ...]:
    """Return the name of each element of the flat observation, "term/element"."""
    return tuple(f"{name}/{part}" for name, (parts, _) in _TERMS.items() for part in parts or robot.joint_names)


def observe(sight: Sight) -> NDArray[np.float32]:
    """Return float32 (k, elements), a new array."""
    return np.concatenate([value(sight) for _, value in _TERMS.values()], axis=1, dtype=np.float32, casting="same_kind")
