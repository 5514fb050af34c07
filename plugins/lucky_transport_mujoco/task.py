"""The task: follow a commanded velocity without falling. One table of reward terms, one of terminations.

A term's row in a frame is already weighted; the total reward is the plain sum of the rows. Every term is a vectorised
function of `Situation`; a row of its result does not depend on the other rows. An env that diverged has no meaningful
motion: its reward terms are 0 and `diverged` is its only termination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.motion import Motion

__all__ = ["REWARDS", "TERMINATIONS", "Reward", "Situation", "Termination", "judge"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Situation:
    """What terms are computed from, for k envs after a step.

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
    """One reward term: `weight` times `value(situation)`, float64 (k,)."""

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
    """Return the signals: float32 (terms, k), reward rows and then termination rows (0 or 1), a new array."""
    out = np.empty((len(REWARDS) + len(TERMINATIONS), situation.ticks.size), np.float32)
    for row, reward in zip(out, REWARDS, strict=False):
        row[:] = reward.weight * reward.value(situation)
    out[: len(REWARDS), situation.diverged] = 0
    for row, termination in zip(out[len(REWARDS) :], TERMINATIONS, strict=True):
        row[:] = termination.holds(situation, max_episode_steps)
    return out
