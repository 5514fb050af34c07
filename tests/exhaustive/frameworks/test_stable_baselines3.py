"""Stable-Baselines3: `lucky_transport_frameworks.sb3.LuckyVecEnv` is the `VecEnv` that its algorithms expect."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError


@pytest.fixture
def sb3() -> Any:
    """The package."""
    return pytest.importorskip(
        "stable_baselines3", reason="Stable-Baselines3 is not installed: pip install stable-baselines3"
    )


def adapted(make: Any, engine: str = "toy", num_envs: int = 2, **settings: Any) -> Any:
    from lucky_transport_frameworks.sb3 import LuckyVecEnv

    return LuckyVecEnv(make(engine, num_envs, framework="sb3", **settings))


def inproc(engine: str, num_envs: int, **settings: Any) -> Any:
    return api.make(engine, num_envs, transport="inproc", **settings)


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_it_trains(make: Any, sb3: Any, torch: Any, algorithm: str) -> None:
    from stable_baselines3.common.vec_env import VecMonitor

    env = VecMonitor(adapted(make, num_envs=4, options={"episode_steps": 7}))
    options = {"n_steps": 25, "batch_size": 50} if algorithm == "PPO" else {"learning_starts": 100, "batch_size": 32}
    model = getattr(sb3, algorithm)("MlpPolicy", env, device="cpu", seed=1, **options)
    before = {name: one.detach().clone() for name, one in model.policy.named_parameters()}
    model.learn(400)
    assert model.num_timesteps == 400
    assert any(not torch.equal(before[name], one) for name, one in model.policy.named_parameters())
    assert max(episode["l"] for episode in model.ep_info_buffer) == 7


def test_the_terminal_observation_is_the_one_before_the_reset(make: Any, sb3: Any) -> None:
    env = adapted(make, options={"episode_steps": 3})
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
        assert info["termination_terms"]["time_out"] is True
        assert set(info["reward_terms"]) == {"alive", "centred"}
    assert [set(info) for info in steps[0][0][3]] == [set(), set()]


def test_an_episode_that_ends_in_failure_is_no_time_limit(sb3: Any) -> None:
    env = adapted(inproc, "gymnasium:CartPole-v1", 1)
    env.reset()
    steps = [env.step(np.array([1])) for _ in range(30)]
    ends = [infos[0] for _, _, done, infos in steps if done[0]]
    assert len(ends) >= 2
    assert not any(info["TimeLimit.truncated"] for info in ends)


def test_a_terminal_observation_of_several_arrays_is_a_dict(sb3: Any) -> None:
    env = adapted(inproc, "toy:composite", 2, options={"episode_steps": 2})
    env.reset()
    env.step(env.env.action_space.sample())
    infos = env.step(env.env.action_space.sample())[3]
    assert infos[0]["terminal_observation"] in env.observation_space


def test_seeds_and_options_hold_for_one_reset(sb3: Any) -> None:
    env = adapted(inproc)
    env.seed(5)
    first = env.reset()
    second = env.reset()
    env.seed(5)
    env.set_options({"a": 1})
    assert np.array_equal(env.reset(), first)
    assert not np.array_equal(first, second)
    env.set_options([{"a": 1}, {"a": 2}])
    with pytest.raises(ValueError, match=r"options of env 1 are \{'a': 2\}, those of env 0 \{'a': 1\}"):
        env.reset()
    env.set_options()
    assert env.reset().shape == first.shape


def test_attributes_are_the_engines_and_new_ones_are_kept_per_env(sb3: Any) -> None:
    env = adapted(inproc, num_envs=3)
    assert env.get_attr("max_episode_steps", indices=[0, 2]) == [100, 100]
    assert env.env_method("max_episode_steps", indices=1) == [100]
    assert not env.has_attr("level")
    env.set_attr("level", 4)
    env.set_attr("level", 5, indices=1)
    assert env.get_attr("level") == [4, 5, 4]
    with pytest.raises(AttributeError, match="max_episode_steps"):
        env.set_attr("max_episode_steps", 3)
    assert env.env_is_wrapped(object, indices=[0]) == [False]


def test_it_renders_all_envs_in_one_image(sb3: Any) -> None:
    pytest.importorskip("mujoco")
    env = adapted(inproc, "mujoco:quadruped-walk", render_mode="rgb_array", render_size=(24, 16))
    env.reset()
    assert env.render_mode == "rgb_array"
    assert env.render().shape == (32, 24, 3) or env.render().shape == (16, 48, 3)
    env.close()


def test_an_env_in_another_mode_is_refused_with_the_remedy(sb3: Any) -> None:
    from lucky_transport_frameworks.sb3 import LuckyVecEnv

    with inproc("toy", 2) as env, pytest.raises(ConfigError, match=r"has NEXT_STEP; make\(..., framework='sb3'\)"):
        LuckyVecEnv(env)
