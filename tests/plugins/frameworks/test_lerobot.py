"""LeRobot's expectations of an env, without LeRobot: its evaluation's calls, made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError
from lucky_transport_frameworks.lerobot import LuckyLeRobotEnv


def make(engine: str = "toy", **settings: Any) -> Any:
    return api.make(engine, 2, transport="inproc", **{"framework": "lerobot", **settings})


@pytest.fixture
def env() -> Iterator[LuckyLeRobotEnv]:
    """Points without images, whose episodes last four steps."""
    wrapped = LuckyLeRobotEnv(make(options={"episode_steps": 4}))
    yield wrapped
    wrapped.close()


def test_observations_are_dicts_in_their_space(env: LuckyLeRobotEnv) -> None:
    observation, _ = env.reset(seed=[3, 4], options={"lerobot_new_rollout": True})
    assert list(observation) == ["agent_pos"]
    assert observation in env.observation_space
    with make() as plain:
        assert np.array_equal(plain.reset(seed=[3, 4])[0], observation["agent_pos"])


def test_an_episode_that_lasts_to_its_limit_is_a_success(env: LuckyLeRobotEnv) -> None:
    env.reset(seed=0)
    for _ in range(3):
        assert "final_info" not in env.step(np.zeros((2, 2), np.float32))[4]
    observation, _, terminated, truncated, info = env.step(np.zeros((2, 2), np.float32))
    assert truncated.all()
    assert not terminated.any()
    assert info["final_info"]["is_success"].tolist() == [True, True]
    assert info["final_obs"]["agent_pos"].shape == observation["agent_pos"].shape


def test_success_can_be_defined() -> None:
    env = LuckyLeRobotEnv(
        make(options={"episode_steps": 2}), success=lambda terminated, truncated, info: np.array([False, True])
    )
    env.reset(seed=0)
    env.step(np.zeros((2, 2), np.float32))
    info = env.step(np.zeros((2, 2), np.float32))[4]
    assert info["final_info"]["is_success"].tolist() == [False, True]
    env.close()


def test_the_attributes_that_an_evaluation_asks_for_are_there() -> None:
    pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")
    env = LuckyLeRobotEnv(make("mujoco:quadruped-walk", render_mode="rgb_array", render_size=(24, 16)))
    observation, _ = env.reset(seed=[1, 2])
    assert observation in env.observation_space
    assert observation["pixels"].shape == (2, 16, 24, 3)
    assert observation["pixels"].std() > 5
    observation = env.step(np.zeros((2, 12), np.float32))[0]
    assert observation in env.observation_space
    assert env.call("_max_episode_steps") == (1000, 1000)
    assert env.get_attr("task") == ("walking", "walking")
    assert "walk" in env.call("task_description")[0]
    assert [image.shape for image in env.call("render")] == [(16, 24, 3)] * 2
    assert env.unwrapped.metadata["render_fps"] == 50
    env.close()


@pytest.mark.parametrize(
    ("engine", "settings", "text"),
    [
        ("toy", {"framework": "skrl"}, r"lerobot needs an env with autoreset_mode SAME_STEP.*framework='lerobot'"),
        ("toy:composite", {}, "LeRobot's agent_pos is a flat array"),
    ],
)
def test_an_env_that_does_not_fit_is_refused(engine: str, settings: dict[str, Any], text: str) -> None:
    with make(engine, **settings) as env, pytest.raises(ConfigError, match=text):
        LuckyLeRobotEnv(env)
    with make() as env, pytest.raises(ConfigError, match="render_mode='rgb_array'"):
        LuckyLeRobotEnv(env, pixels=True)
