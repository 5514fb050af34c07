"""The task: follow a commanded velocity without falling; tables of its observation, reward and termination terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.physics import Motion
from lucky_transport_mujoco.robot import Robot

__all__ = [
    "REWARDS",
    "TERMINATIONS",
    "Reward",
    "Sight",
    "Situation",
    "Termination",
    "judge",
    "observation_names",
    "observation_terms",
    "observe",
]

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Situation:
    """What terms are computed from, for k envs after a step; a row of a term depends on its own env only.

    command: float64 (k, 3), in force during the step. action, previous: float32 (k, nu). torques: float64 (k, nu) in
    Nm. ticks: int64 (k,), steps since the reset. diverged: bool (k,).
    """

    motion: Motion
    command: _Array
    action: NDArray[np.float32]
    previous: NDArray[np.float32]
    torques: _Array
    ticks: NDArray[np.int64]
    diverged: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reward:
    """One reward term: `weight` times `value(situation)`, float64 (k,); the reward is the sum of all terms."""

    name: str
    weight: float
    value: Callable[[Situation], _Array]
    summary: str


@dataclass(frozen=True, slots=True)
class Termination:
    """One termination term: `holds(situation, max_episode_steps)`, bool (k,); a timeout truncates."""

    name: str
    is_timeout: bool
    holds: Callable[[Situation, int], NDArray[np.bool_]]
    summary: str


#: Squared error at which a tracking reward has dropped to 1/e.
_TRACKING = 0.25

#: cos of the largest tilt (60 degrees), and the lowest base (legs folded), of a robot that has not fallen.
_TILT_COS = 0.5
_LOWEST_M = 0.13


def _squares(array: _Array) -> _Array:
    return (array * array).sum(axis=1)


def _track_linear(s: Situation) -> _Array:
    return np.exp(_squares(s.command[:, :2] - s.motion.lin_vel[:, :2]) / -_TRACKING)


def _track_turning(s: Situation) -> _Array:
    error = s.command[:, 2] - s.motion.ang_vel[:, 2]
    return np.exp(error * error / -_TRACKING)


def _action_rate(s: Situation) -> _Array:
    return _squares(s.action.astype(np.float64) - s.previous)


def _has_fallen(s: Situation, _: int) -> NDArray[np.bool_]:
    return ((s.motion.gravity[:, 2] > -_TILT_COS) | (s.motion.height < _LOWEST_M)) & ~s.diverged


REWARDS: tuple[Reward, ...] = (
    Reward("track_lin_vel_xy", 1.0, _track_linear, "1 at the commanded horizontal velocity, falling with the error"),
    Reward("track_ang_vel_z", 0.5, _track_turning, "1 at the commanded turning rate, falling with the error"),
    Reward("lin_vel_z", -2.0, lambda s: s.motion.lin_vel[:, 2] ** 2, "squared vertical velocity of the base"),
    Reward("ang_vel_xy", -0.05, lambda s: _squares(s.motion.ang_vel[:, :2]), "squared rolling and pitching rates"),
    Reward("flat_orientation", -1.0, lambda s: _squares(s.motion.gravity[:, :2]), "squared tilt of the base"),
    Reward("action_rate", -0.01, _action_rate, "squared change of the action"),
    Reward("torques", -2e-4, lambda s: _squares(s.torques), "squared motor torques"),
    Reward("alive", 0.1, lambda s: np.ones(s.ticks.size), "constant for each step"),
)

TERMINATIONS: tuple[Termination, ...] = (
    Termination("fell_over", False, _has_fallen, "tilted by more than 60 degrees, or base below 13 cm"),
    Termination("diverged", False, lambda s, _: s.diverged, "the physics of this env broke down"),
    Termination("time_out", True, lambda s, limit: s.ticks >= limit, "the episode reached its last step"),
)


def judge(situation: Situation, max_episode_steps: int) -> NDArray[np.float32]:
    """Return the signals: float32 (terms, k), weighted reward rows and then termination rows (0 or 1), a new array.

    A diverged env has no meaningful motion: its reward terms are 0 and `diverged` is its only termination.
    """
    out = np.empty((len(REWARDS) + len(TERMINATIONS), situation.ticks.size), np.float32)
    for row, reward in zip(out, REWARDS, strict=False):
        row[:] = reward.weight * reward.value(situation)
    out[: len(REWARDS), situation.diverged] = 0
    for row, termination in zip(out[len(REWARDS) :], TERMINATIONS, strict=True):
        row[:] = termination.holds(situation, max_episode_steps)
    return out


@dataclass(frozen=True, slots=True)
class Sight:
    """What the terms are computed from, for k envs. command: float64 (k, 3). action: float32 (k, nu), the last one."""

    motion: Motion
    command: NDArray[np.float64]
    action: NDArray[np.float32]


_AXES = ("x", "y", "z")
_COMMAND = ("x", "y", "yaw")

#: Term -> (names of its elements, None for the joints'; value (k, elements)). SI units, base frame, unscaled.
_OBSERVATION: dict[str, tuple[tuple[str, ...] | None, Callable[[Sight], NDArray[np.floating]]]] = {
    "base_lin_vel": (_AXES, lambda sight: sight.motion.lin_vel),
    "base_ang_vel": (_AXES, lambda sight: sight.motion.ang_vel),
    "projected_gravity": (_AXES, lambda sight: sight.motion.gravity),
    "velocity_command": (_COMMAND, lambda sight: sight.command),
    "joint_pos": (None, lambda sight: sight.motion.joint_pos),
    "joint_vel": (None, lambda sight: sight.motion.joint_vel),
    "last_action": (None, lambda sight: sight.action),
}


def observation_terms(robot: Robot) -> tuple[tuple[str, int], ...]:
    """Return (name, elements) of each term, in order."""
    return tuple((name, len(parts or robot.joint_names)) for name, (parts, _) in _OBSERVATION.items())


def observation_names(robot: Robot) -> tuple[str, ...]:
    """Return the name of each element of the flat observation, "term/element"."""
    return tuple(f"{name}/{part}" for name, (parts, _) in _OBSERVATION.items() for part in parts or robot.joint_names)


def observe(sight: Sight) -> NDArray[np.float32]:
    """Return float32 (k, elements), a new array."""
    return np.concatenate(
        [value(sight) for _, value in _OBSERVATION.values()], axis=1, dtype=np.float32, casting="same_kind"
    )
