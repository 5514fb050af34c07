"""Following a commanded velocity without falling: terms of observation, reward and end, and the tasks made of them.

`VELOCITY` has the terms and weights of luckyrobots. `WALKING` has weights that a policy learns to walk with in minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import SimulationContract
from lucky_transport.spec.batch_spec import total_reward
from lucky_transport_mujoco.control.policies import lifts
from lucky_transport_mujoco.physics import Motion
from lucky_transport_mujoco.randomization import DEFAULTS
from lucky_transport_mujoco.robot import Robot

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


#: A trot: how often a leg is lifted, how high, and the squared error at which its reward has dropped to 1/e.
_GAIT_HZ = 2.0
_STEP_S = 0.02
_GAIT_LIFT_M = 0.05
_GAIT_ERROR = 8e-4

#: Angle of the knees in the standing pose.
_KNEE_RAD = -1.6


def _phase(ticks: NDArray[np.int64]) -> _Array:
    """Return where in the trot an env is, float64 (k,) in radians: FL and RR swing in its first half."""
    return ticks.astype(np.float64) * (2 * np.pi * _GAIT_HZ * _STEP_S)


def _gait(s: Situation) -> _Array:
    lift: _Array = lifts(s.motion.joint_pos[:, 2::3] + _KNEE_RAD)
    wave = np.sin(_phase(s.ticks))[:, None] * np.array([1.0, -1.0, -1.0, 1.0])  # FL FR RL RR
    error: _Array = lift - _GAIT_LIFT_M * np.maximum(wave, 0)
    return np.exp(_squares(error) / -_GAIT_ERROR).astype(np.float64, copy=False)


_LINEAR = "1 at the commanded horizontal velocity, falling with the error"
_TURNING = "1 at the commanded turning rate, falling with the error"
_VERTICAL = "squared vertical velocity of the base"
_ROLLING = "squared rolling and pitching rates"
_TILT = "squared tilt of the base"
_CHANGE = "squared change of the action"
_EFFORT = "squared motor torques"

REWARDS: tuple[Reward, ...] = (
    Reward("track_lin_vel_xy", 1.0, _track_linear, _LINEAR),
    Reward("track_ang_vel_z", 0.5, _track_turning, _TURNING),
    Reward("lin_vel_z", -2.0, lambda s: s.motion.lin_vel[:, 2] ** 2, _VERTICAL),
    Reward("ang_vel_xy", -0.05, lambda s: _squares(s.motion.ang_vel[:, :2]), _ROLLING),
    Reward("flat_orientation", -1.0, lambda s: _squares(s.motion.gravity[:, :2]), _TILT),
    Reward("action_rate", -0.01, _action_rate, _CHANGE),
    Reward("torques", -2e-4, lambda s: _squares(s.torques), _EFFORT),
    Reward("alive", 0.1, lambda s: np.ones(s.ticks.size), "constant for each step"),
)

TERMINATIONS: tuple[Termination, ...] = (
    Termination("fell_over", False, _has_fallen, "tilted by more than 60 degrees, or base below 13 cm"),
    Termination("diverged", False, lambda s, _: s.diverged, "the physics of this env broke down"),
    Termination("time_out", True, lambda s, limit: s.ticks >= limit, "the episode reached its last step"),
)


@dataclass(frozen=True, slots=True)
class Task:
    """What the robots of one engine are to do: `mujoco:<variant>`.

    rewards: its terms; the reward is their sum. floor: name of one more term, which lifts a negative sum to 0, so that
    it never pays to end an episode early; "" for none. contract: what holds until a client sends another.
    """

    variant: str
    name: str
    description: str
    rewards: tuple[Reward, ...]
    contract: SimulationContract
    floor: str = ""

    @property
    def summaries(self) -> dict[str, str]:
        """What each reward term is, by its name."""
        floor = {self.floor: "lifts the sum of all others to 0 where it is negative"} if self.floor else {}
        return {term.name: term.summary for term in self.rewards} | floor

    @property
    def reward_names(self) -> tuple[str, ...]:
        """The names of all reward terms, the floor's last."""
        return tuple(self.summaries)


VELOCITY = Task(
    variant="quadruped",
    name="velocity tracking",
    description="walk and turn at the commanded velocity without falling over",
    rewards=REWARDS,
    contract=DEFAULTS,
)

#: As legged_gym and Isaac Lab weight it: nothing is paid for standing, and no step costs anything. Commands ask for
#: walking, and change four times in an episode.
WALKING = Task(
    variant="quadruped-walk",
    name="walking",
    description="walk forward and turn at the commanded velocity; standing still earns little",
    rewards=(
        Reward("track_lin_vel_xy", 1.0, _track_linear, _LINEAR),
        Reward("track_ang_vel_z", 0.3, _track_turning, _TURNING),
        Reward("gait", 0.75, _gait, "1 when the feet are lifted in turn, two diagonal ones at a time"),
        Reward("lin_vel_z", -1.0, lambda s: s.motion.lin_vel[:, 2] ** 2, _VERTICAL),
        Reward("ang_vel_xy", -0.01, lambda s: _squares(s.motion.ang_vel[:, :2]), _ROLLING),
        Reward("flat_orientation", -0.5, lambda s: _squares(s.motion.gravity[:, :2]), _TILT),
        Reward("action_rate", -0.005, _action_rate, _CHANGE),
        Reward("torques", -5e-5, lambda s: _squares(s.torques), _EFFORT),
    ),
    floor="floor",
    contract=replace(
        DEFAULTS,
        vel_command_x_range=[0.4, 1.0],
        vel_command_y_range=[-0.2, 0.2],
        vel_command_yaw_range=[-0.8, 0.8],
        vel_command_resampling_time_range=[5.0, 5.0],
        vel_command_standing_probability=0.0,
    ),
)

TASKS = (VELOCITY, WALKING)


def judge(situation: Situation, max_episode_steps: int, task: Task = VELOCITY) -> NDArray[np.float32]:
    """Return the signals: float32 (terms, k), weighted reward rows and then termination rows (0 or 1), a new array.

    A diverged env has no meaningful motion: its reward terms are 0 and `diverged` is its only termination.
    """
    weighted, count = len(task.rewards), len(task.reward_names)
    out = np.empty((count + len(TERMINATIONS), situation.ticks.size), np.float32)
    for row, reward in zip(out, task.rewards, strict=False):
        row[:] = reward.weight * reward.value(situation)
    out[:weighted, situation.diverged] = 0
    if task.floor:
        np.maximum(-total_reward(out, weighted), 0, out=out[weighted])
    for row, termination in zip(out[count:], TERMINATIONS, strict=True):
        row[:] = termination.holds(situation, max_episode_steps)
    return out


@dataclass(frozen=True, slots=True)
class Sight:
    """What the terms are computed from, for k envs.

    command: float64 (k, 3). action: float32 (k, nu), the last one. ticks: int64 (k,), steps since the reset.
    """

    motion: Motion
    command: NDArray[np.float64]
    action: NDArray[np.float32]
    ticks: NDArray[np.int64]


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
    "gait_phase": (("sin", "cos"), lambda sight: _circle(_phase(sight.ticks))),
}

#: The term that only tasks with a gait have.
_CLOCK = "gait_phase"


def _circle(angle: _Array) -> _Array:
    return np.stack([np.sin(angle), np.cos(angle)], 1)


def _observed(task: Task) -> Iterator[tuple[str, tuple[str, ...] | None, Callable[[Sight], NDArray[np.floating]]]]:
    has_gait = any(term.value is _gait for term in task.rewards)
    for name, (parts, value) in _OBSERVATION.items():
        if has_gait or name != _CLOCK:
            yield name, parts, value


def observation_terms(robot: Robot, task: Task = VELOCITY) -> tuple[tuple[str, int], ...]:
    """Return (name, elements) of each term, in order."""
    return tuple((name, len(parts or robot.joint_names)) for name, parts, _ in _observed(task))


def observation_names(robot: Robot, task: Task = VELOCITY) -> tuple[str, ...]:
    """Return the name of each element of the flat observation, "term/element"."""
    return tuple(f"{name}/{part}" for name, parts, _ in _observed(task) for part in parts or robot.joint_names)


def observe(sight: Sight, task: Task = VELOCITY) -> NDArray[np.float32]:
    """Return float32 (k, elements), a new array."""
    return np.concatenate(
        [value(sight) for _, _, value in _observed(task)], axis=1, dtype=np.float32, casting="same_kind"
    )
