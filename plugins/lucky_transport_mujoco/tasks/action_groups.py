"""Named parts of the action, and values set for them ahead of a step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lucky_transport.host.task import agent_index
from lucky_transport.messages import ActionGroupEntry, SetActionGroupRequest, SetActionGroupResponse
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_mujoco.robot import Robot

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
