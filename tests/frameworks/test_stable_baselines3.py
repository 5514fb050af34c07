"""Stable-Baselines3: it wants a `VecEnv` of its own, which the adapter here makes of ours in SameStep."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport.env.vector_env import VectorEnv


@pytest.fixture
def sb3() -> Any:
    """The package."""
    return pytest.importorskip(
        "stable_baselines3", reason="Stable-Baselines3 is not installed: pip install stable-baselines3"
    )


def adapted(env: VectorEnv) -> Any:
    """Return a `stable_baselines3.common.vec_env.VecEnv` that steps `env`, which must be in SameStep."""
    from stable_baselines3.common.vec_env import VecEnv

    class Adapter(VecEnv):
        def __init__(self) -> None:
            self._actions: Any = None
            super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

        def reset(self) -> Any:
            seeds = None if all(seed is None for seed in self._seeds) else self._seeds
            self._reset_seeds()
            return env.reset(seed=seeds)[0]

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            observations, rewards, terminated, truncated, info = env.step(self._actions)
            done = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]
            for index in np.flatnonzero(done):
                infos[index]["terminal_observation"] = info["final_obs"][index]
                infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
            return observations, rewards, done, infos

        def close(self) -> None:
            env.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            if attr_name == "render_mode":
                return [env.render_mode] * env.num_envs
            return list(env.get_attr(attr_name))

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            env.set_attr(attr_name, value)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return list(env.call(method_name, *args, **kwargs))

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * env.num_envs

    return Adapter()


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_it_trains(make: Any, sb3: Any, torch: Any, algorithm: str) -> None:
    from stable_baselines3.common.vec_env import VecMonitor

    env = VecMonitor(adapted(make("toy", 4, autoreset_mode="SameStep", options={"episode_steps": 7})))
    options = {"n_steps": 25, "batch_size": 50} if algorithm == "PPO" else {"learning_starts": 100, "batch_size": 32}
    model = getattr(sb3, algorithm)("MlpPolicy", env, device="cpu", seed=1, **options)
    before = {name: one.detach().clone() for name, one in model.policy.named_parameters()}
    model.learn(400)
    assert model.num_timesteps == 400
    assert any(not torch.equal(before[name], one) for name, one in model.policy.named_parameters())
    assert max(episode["l"] for episode in model.ep_info_buffer) == 7


def test_the_terminal_observation_is_the_one_before_the_reset(make: Any, sb3: Any) -> None:
    env = adapted(make("toy", 2, autoreset_mode="SameStep", options={"episode_steps": 3}))
    plain = make("toy", 2, autoreset_mode="Disabled", options={"episode_steps": 3})
    env.seed(3)
    assert np.array_equal(env.reset(), plain.reset(seed=[3, 4])[0])
    actions = np.full((2, 2), 0.5, np.float32)
    steps = [(env.step(actions), plain.step(actions)) for _ in range(3)]
    (_, _, done, infos), (last, *_) = steps[-1]
    assert done.all()
    for index, info in enumerate(infos):
        assert np.array_equal(info["terminal_observation"], last[index])
        assert info["TimeLimit.truncated"]
