"""LeRobot: our env with what its evaluation expects of one.

env = lucky_transport.make("mujoco:quadruped-walk", num_envs=2, framework="lerobot", render_mode="rgb_array")
rollout(LuckyLeRobotEnv(env), policy, ...)      # lerobot.scripts.lerobot_eval

LeRobot itself is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError
from lucky_transport_frameworks.modes import check_made_for

#: Returns bool (num_envs,): which envs have succeeded, of terminated, truncated and the info of a step.
Success = Callable[[NDArray[np.bool_], NDArray[np.bool_], Mapping[str, Any]], NDArray[np.bool_]]


def outlasted(
    terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], info: Mapping[str, Any]
) -> NDArray[np.bool_]:
    """An episode that lasted until its time limit was a success: nothing else ended it."""
    return truncated & ~terminated


class LuckyLeRobotEnv(gymnasium.vector.VectorWrapper):
    """Observations are dicts: "agent_pos", the env's own float32 (num_envs, size), and with images "pixels", uint8
    (num_envs, height, width, 3), what the env's camera sees.

    Where an episode ended, `info["final_info"]` has "is_success", bool (num_envs,). `call` and `get_attr` are the
    env's: "task", "task_description", "_max_episode_steps", "render". LeRobot's own options, `lerobot_...`, do not
    go to the engine.
    """

    def __init__(self, env: VectorEnv, success: Success = outlasted, *, pixels: bool | None = None) -> None:
        """Take over `env`. `pixels` None: images if the env has a render mode.

        Raises ConfigError unless the env was made with `framework="lerobot"`, has flat observations and, for images, a
        render mode.
        """
        check_made_for("lerobot", env)
        super().__init__(env)
        space = env.single_observation_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise ConfigError(f"LeRobot's agent_pos is a flat array, engine {env.batch_spec.engine!r} has {space}")
        self._env = env
        self._success = success
        self._pixels = env.render_mode is not None if pixels is None else pixels
        if self._pixels and env.render_mode is None:
            raise ConfigError("pixels need a render mode", hint="make(..., render_mode='rgb_array')")
        spaces: dict[str, Any] = {"agent_pos": space}
        if self._pixels:
            spaces["pixels"] = Box(0, 255, env.render()[0].shape, np.uint8)
        self.single_observation_space = gymnasium.spaces.Dict(spaces)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        options = {name: value for name, value in (options or {}).items() if not name.startswith("lerobot_")}
        observations, info = self._env.reset(seed=seed, options=options)
        return self._seen(observations), info

    def step(self, actions: Any) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, info = self._env.step(actions)
        if "final_info" in info:
            ended = info["_final_info"]
            is_success = self._success(terminated, truncated, info) & ended
            info["final_info"] |= {"is_success": is_success, "_is_success": ended}
            info["final_obs"] = {"agent_pos": info["final_obs"]}
        return self._seen(observations), rewards, terminated, truncated, info

    def _seen(self, observations: Any) -> dict[str, Any]:
        if not self._pixels:
            return {"agent_pos": observations}
        return {"agent_pos": observations, "pixels": np.stack(self._env.render())}

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of the envs, or their images."""
        return self._env.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the envs; raises AttributeError naming those there are."""
        return self._env.get_attr(name)
