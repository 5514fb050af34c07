"""What one StepRequest asks for: its env and its row of actions.

Rule 1: actions are refused with the class and text of `lucky_transport.spec.actions`, as on every transport.
Rule 2: without actions the engine ticks with its default, all zeros; groups are laid over whatever else is given.
Rule 3: a request is anything with the fields of `StepRequest`: ours, or the same message in a transport's own form.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.host.task import agent_index
from lucky_transport.spec.actions import check_actions
from lucky_transport.spec.batch_spec import BatchSpec

__all__ = ["env_of", "read_actions"]


def env_of(spec: BatchSpec, agent_name: str) -> int:
    """Return the env of an agent; raises ValueError naming those there are."""
    env = agent_index(spec, agent_name)
    if env < 0:
        last = spec.num_envs - 1
        raise ValueError(f"no agent {agent_name!r}; there are agent_0{f' to agent_{last}' if last else ''}")
    return env


def read_actions(spec: BatchSpec, env: int, request: Any) -> NDArray[Any]:
    """Return the flat actions of one env: spec dtype (action size,), finite.

    Raises ValueError or TypeError for what cannot be done, in words for the person who called.
    """
    if spec.has_parts:
        raise SpecError(
            f"engine {spec.engine!r} has observations or actions with parts, and a Step carries one row of numbers",
            hint="step it as a batch, which carries every part as it is",
        )
    size = spec.action.size
    if len(request.actions):
        values = np.array(request.actions, np.float32)
    else:
        values = np.zeros(size, np.float32)
    if values.shape == (size,):
        for group in request.action_groups:
            _lay_over(values, group)
        if np.isfinite(values).all():
            return _cast(spec, values)
    return _refuse(spec, env, values)


def _lay_over(values: NDArray[np.float32], group: Any) -> None:
    name, indices = group.group_name, list(group.action_indices)
    if len(indices) != len(group.actions):
        raise ValueError(f"action group {name!r} has {len(group.actions)} actions for {len(indices)} indices")
    outside = [index for index in indices if not 0 <= index < len(values)]
    if outside:
        raise ValueError(f"action group {name!r}: index {outside[0]}, expected 0 to {len(values) - 1}")
    values[indices] = group.actions


def _cast(spec: BatchSpec, values: NDArray[np.float32]) -> NDArray[Any]:
    wanted = np.dtype(spec.action.dtype)
    if wanted.kind not in "iu":
        return values.astype(wanted, copy=False)
    whole = np.rint(values)
    if (whole != values).any():
        raise TypeError(f"actions {values.tolist()}: expected integers ({wanted}): the action space is discrete")
    limits = np.iinfo(wanted)
    if (whole < limits.min).any() or (whole > limits.max).any():
        raise ValueError(f"actions {values.tolist()} do not fit into {wanted}")
    return whole.astype(wanted)


def _refuse(spec: BatchSpec, env: int, values: NDArray[np.float32]) -> NDArray[Any]:
    """Raise what `check_actions` says of such actions; only a wrong count or a value that is not finite comes here."""
    if values.shape != (spec.action.size,):
        one_env = dataclasses.replace(
            spec, num_envs=1, action=dataclasses.replace(spec.action, dtype="float32", shape=(spec.action.size,))
        )
        return check_actions(one_env, values[None])
    batch = np.zeros((spec.num_envs, *spec.action.shape), np.float32)
    batch[env] = values.reshape(spec.action.shape)
    as_floats = dataclasses.replace(spec, action=dataclasses.replace(spec.action, dtype="float32"))
    return check_actions(as_floats, batch)
