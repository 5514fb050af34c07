"""Stable-Baselines3: our env as its `VecEnv`.

env = LuckyVecEnv(lucky_transport.make("mujoco:quadruped-walk", num_envs=16, framework="sb3"))
PPO("MlpPolicy", VecMonitor(env)).learn(100_000)

Episodes are reset in the step that ends them, as Stable-Baselines3 expects.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError
from lucky_transport_frameworks.modes import check_made_for

_Indices = None | int | Iterable[int]


class LuckyVecEnv(VecEnv):
    """Steps `env`, the wrapped env, and closes it.

    A step returns observations and rewards as the env does, float32 (num_envs,), done bool (num_envs,), and a list of
    one dict per env. Where an episode ended, the observation is that of the next one, and the dict has
    "terminal_observation" (a copy of the last one), "TimeLimit.truncated" and the terms of the last step,
    "reward_terms" and "termination_terms". `info` is the env's own info of the last step, a column per term.

    `seed` and `set_options` take effect at the next `reset`. An attribute that `set_attr` sets belongs to this object:
    the engine's own ones are fixed.
    """

    def __init__(self, env: VectorEnv) -> None:
        """Take over `env`; raises ConfigError unless it was made with `framework="sb3"`."""
        check_made_for("sb3", env)
        self.env = env
        self.info: Mapping[str, Any] = {}
        self._set: dict[str, list[Any]] = {}
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        options = _common(self._options)
        self._reset_seeds()
        self._reset_options()
        observations, self.info = self.env.reset(seed=seeds, options=options)
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return observations

    def step_async(self, actions: Any) -> None:
        self.env.step_async(actions)

    def step_wait(self) -> Any:
        observations, rewards, terminated, truncated, info = self.env.step_wait()
        self.info = info
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(done).tolist():
            infos[index] = {
                "terminal_observation": _row(info["final_obs"], index),
                "TimeLimit.truncated": bool(truncated[index] and not terminated[index]),
                **{group: _terms(info["final_info"], group, index) for group in ("reward_terms", "termination_terms")},
            }
        return observations, rewards, done, infos

    def close(self) -> None:
        self.env.close()

    def get_images(self) -> Sequence[Any]:
        return self.env.render()

    def get_attr(self, attr_name: str, indices: _Indices = None) -> list[Any]:
        if attr_name in self._set:
            values: Sequence[Any] = self._set[attr_name]
        elif attr_name == "render_mode":
            values = [self.env.render_mode] * self.num_envs
        else:
            values = self.env.get_attr(attr_name)
        return [values[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: _Indices = None) -> None:
        """Set an attribute for the envs of `indices`, the others have None; raises AttributeError for the engine's."""
        if attr_name == "render_mode" or attr_name in self.env.batch_spec.attributes:
            self.env.set_attr(attr_name, value)
        values = self._set.setdefault(attr_name, [None] * self.num_envs)
        for index in self._get_indices(indices):
            values[index] = value

    def env_method(
        self, method_name: str, *method_args: Any, indices: _Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return what `env.call` returns, "render" or an attribute, for the envs of `indices`."""
        values = self.env.call(method_name, *method_args, **method_kwargs)
        return [values[index] for index in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: _Indices = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def _common(options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the options that all envs share; raises SpecError where they differ: an engine takes one set."""
    for index, one in enumerate(options):
        if one != options[0]:
            raise SpecError(
                f"options of env {index} are {one!r}, those of env 0 {options[0]!r}: pass one dict to set_options()"
            )
    return options[0] or None


def _row(values: Any, index: int) -> Any:
    """Return a copy of one env's row of an array, or of a dict or tuple of such."""
    if isinstance(values, Mapping):
        return {name: _row(value, index) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(_row(value, index) for value in values)
    return values[index].copy()


def _terms(info: Mapping[str, Any], group: str, index: int) -> dict[str, Any]:
    """Return one env's terms of a group, name -> number; {} where the engine has none."""
    prefix = f"{group}/"
    return {name.removeprefix(prefix): value[index].item() for name, value in info.items() if name.startswith(prefix)}
