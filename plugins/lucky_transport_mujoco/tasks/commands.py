"""Velocity commands, which a policy is asked to follow, and pushes, which disturb it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import SimulationContract
from lucky_transport_mujoco.randomization import RandomStreams

_NEVER = np.iinfo(np.int64).max


class _Timer:
    """When something is next due in each env, in control steps since its reset; drawn from its interval in seconds."""

    def __init__(self, num_envs: int, step_s: float) -> None:
        self._step_s = step_s
        self._interval = np.zeros((num_envs, 2))
        self._due = np.full(num_envs, _NEVER)

    def start(self, envs: NDArray[np.intp], interval: Sequence[float]) -> None:
        """Use this interval, [low, high] or empty for never, for `envs`; nothing is due before `wind`."""
        self._interval[envs] = interval or (0.0, 0.0)
        self._due[envs] = _NEVER

    def wind(self, envs: NDArray[np.intp], ticks: NDArray[np.int64], uniform: NDArray[np.float64]) -> None:
        """Set when it is due next: an interval after `ticks`, at least one step; never without an interval."""
        low, high = self._interval[envs].T
        steps = np.maximum(np.rint((low + (high - low) * uniform) / self._step_s).astype(np.int64), 1)
        self._due[envs] = np.where(high > 0, ticks + steps, _NEVER)

    def due(self, envs: NDArray[np.intp], ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return bool (len(envs),): whose time has come at `ticks`."""
        return ticks >= self._due[envs]


class VelocityCommands:
    """The commanded velocity of each env. `values`: float64 (num_envs, 3): forward, left (m/s), turning (rad/s)."""

    def __init__(self, num_envs: int, step_s: float, streams: RandomStreams, defaults: SimulationContract) -> None:
        """`defaults`: its ranges hold where a contract has none."""
        self.values = np.zeros((num_envs, 3))
        self._defaults = defaults
        self._streams = streams
        self._low = np.zeros((num_envs, 3))
        self._high = np.zeros((num_envs, 3))
        self._standing = np.zeros(num_envs)
        self._timer = _Timer(num_envs, step_s)

    def reset(self, envs: NDArray[np.intp], contract: SimulationContract) -> None:
        """Take the contract's ranges for `envs` and draw their first commands."""
        limits = np.array(
            [
                contract.vel_command_x_range or self._defaults.vel_command_x_range,
                contract.vel_command_y_range or self._defaults.vel_command_y_range,
                contract.vel_command_yaw_range or self._defaults.vel_command_yaw_range,
            ]
        )
        self._low[envs], self._high[envs] = limits.T
        self._standing[envs] = contract.vel_command_standing_probability
        resampling = contract.vel_command_resampling_time_range or self._defaults.vel_command_resampling_time_range
        self._timer.start(envs, resampling)
        self._draw(envs, np.zeros(envs.size, np.int64))

    def update(self, envs: NDArray[np.intp], ticks: NDArray[np.int64]) -> None:
        """Draw new commands for those of `envs` whose time is over at `ticks`, int64 (len(envs),)."""
        due = self._timer.due(envs, ticks)
        if due.any():
            self._draw(envs[due], ticks[due])

    def _draw(self, envs: NDArray[np.intp], ticks: NDArray[np.int64]) -> None:
        uniform = self._streams.uniform(envs, 5)
        drawn = self._low[envs] + (self._high[envs] - self._low[envs]) * uniform[:, :3]
        drawn[uniform[:, 3] < self._standing[envs]] = 0
        self.values[envs] = drawn
        self._timer.wind(envs, ticks, uniform[:, 4])


class Pushes:
    """Sudden changes of the base's horizontal velocity."""

    def __init__(self, num_envs: int, step_s: float, streams: RandomStreams) -> None:
        self._streams = streams
        self._speed = np.zeros((num_envs, 2))
        self._timer = _Timer(num_envs, step_s)

    def reset(self, envs: NDArray[np.intp], contract: SimulationContract) -> None:
        """Take the contract's interval and speed for `envs`; the first push comes one interval after the reset."""
        self._speed[envs] = contract.push_velocity_range or (0.0, 0.0)
        self._timer.start(envs, contract.push_interval_range)
        self._timer.wind(envs, np.zeros(envs.size, np.int64), self._streams.uniform(envs, 1)[:, 0])

    def apply(self, envs: NDArray[np.intp], ticks: NDArray[np.int64], qvel: NDArray[np.float64]) -> None:
        """Push those of `envs` whose time has come at `ticks`: adds to `qvel`, float64 (num_envs, nv), in place."""
        due = self._timer.due(envs, ticks)
        if not due.any():
            return
        pushed = envs[due]
        uniform = self._streams.uniform(pushed, 3)
        low, high = self._speed[pushed].T
        speed = low + (high - low) * uniform[:, 0]
        direction = 2 * np.pi * uniform[:, 1]
        qvel[pushed, 0] += speed * np.cos(direction)
        qvel[pushed, 1] += speed * np.sin(direction)
        self._timer.wind(pushed, ticks[due], uniform[:, 2])
