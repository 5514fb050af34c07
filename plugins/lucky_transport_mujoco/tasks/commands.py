"""Velocity commands, which a policy is asked to follow, pushes, which disturb it, and actions set ahead of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lucky_transport.host.task import agent_index
from lucky_transport.messages import ActionGroupEntry, SetActionGroupRequest, SetActionGroupResponse, SimulationContract
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_mujoco.randomization import RandomStreams
from lucky_transport_mujoco.robot import Robot

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


_LEGS = {"FL": "front_left", "FR": "front_right", "RL": "rear_left", "RR": "rear_right"}
_PARTS = {"hip": "hips", "thigh": "thighs", "calf": "calves"}


def groups(robot: Robot) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return (name, action indices) of each leg, of each kind of joint, and of "all"."""
    kinds = [name.split("_")[:2] for name in robot.actuator_names]
    return (
        *((long, tuple(i for i, (leg, _) in enumerate(kinds) if leg == short)) for short, long in _LEGS.items()),
        *((many, tuple(i for i, (_, part) in enumerate(kinds) if part == one)) for one, many in _PARTS.items()),
        ("all", tuple(range(robot.nu))),
    )


class ActionGroups:
    """Values for the next step of their agents, which then are forgotten; a reset ignores and forgets them too."""

    def __init__(self, spec: BatchSpec) -> None:
        self._spec = spec
        self._groups = dict(spec.action_groups)
        self._values = np.zeros(spec.action_shape, np.float32)
        self._set = np.zeros(spec.action_shape, np.bool_)
        self._any = False

    def put(self, request: SetActionGroupRequest) -> SetActionGroupResponse:
        """Keep a group's values for the agent's next step; a later value for the same index replaces an earlier one."""
        env = agent_index(self._spec, request.agent_name)
        if env < 0:
            return SetActionGroupResponse(
                False, f"no agent {request.agent_name!r}; there are agent_0 to agent_{self._spec.num_envs - 1}"
            )
        group = request.group or ActionGroupEntry()
        indices = list(group.action_indices) or list(self._groups.get(group.group_name, ()))
        problem = self._problem(group, indices)
        if problem:
            return SetActionGroupResponse(False, problem)
        self._values[env, indices] = group.actions
        self._set[env, indices] = True
        self._any = True
        return SetActionGroupResponse(True)

    def _problem(self, group: ActionGroupEntry, indices: list[int]) -> str:
        size = self._spec.action.size
        if not indices:
            return f"no action group {group.group_name!r}; there are: {', '.join(self._groups)}, or pass action_indices"
        if any(not 0 <= index < size for index in indices) or len(set(indices)) != len(indices):
            return f"action_indices {indices}: expected different numbers from 0 to {size - 1}"
        if len(group.actions) != len(indices):
            return f"{len(group.actions)} actions for the {len(indices)} indices {indices}: expected as many"
        if not all(math.isfinite(value) for value in group.actions):
            return f"actions {group.actions} are not finite"
        return ""

    def over(self, envs: NDArray[np.intp], actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `actions`, float32 (len(envs), size), with the waiting values of `envs` on top, which are now used."""
        if not self._any:
            return actions
        merged = np.where(self._set[envs], self._values[envs], actions)
        self._set[envs] = False
        self._any = bool(self._set.any())
        return merged
