"""Our env, or its adapter, in skrl, rsl_rl, Stable-Baselines3 and TorchRL; that they train on it, the examples show."""

# pyright: reportMissingImports=false

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.errors import ConfigError

# --- skrl: `wrap_env` knows the env by itself, over Gymnasium's default mode, NextStep ---


@pytest.fixture
def skrl() -> Iterator[Any]:
    """The package; what it logs when the process ends would go to a stream that pytest has closed by then."""
    yield pytest.importorskip("skrl", reason="skrl is not installed: pip install skrl")
    logging.getLogger("skrl").handlers.clear()


def test_a_wrapped_env_is_recognised_too(make: Any, skrl: Any) -> None:
    from gymnasium.wrappers.vector import RecordEpisodeStatistics
    from skrl.envs.wrappers.torch import wrap_env

    env = wrap_env(RecordEpisodeStatistics(make("toy", 2)))
    observations, _ = env.reset()
    assert tuple(observations.shape) == (2, 8)


# --- rsl_rl: its runner trains on `lucky_transport_frameworks.rsl_rl.LuckyVecEnv` ---


@pytest.fixture
def adapter() -> Any:
    """The class."""
    pytest.importorskip("rsl_rl", reason="rsl_rl is not installed: pip install rsl-rl-lib")
    from lucky_transport_frameworks.rsl_rl import LuckyVecEnv

    return LuckyVecEnv


def test_a_step_tells_time_outs_terms_and_last_observations(adapter: Any, torch: Any) -> None:
    env = adapter(api.make("toy", 2, transport="inproc", framework="rsl_rl", options={"episode_steps": 2}), seed=4)
    assert env.max_episode_length == 2
    actions = torch.zeros(2, env.num_actions)
    extras = env.step(actions)[3]
    assert env.episode_length_buf.tolist() == [1, 1]
    assert "final_observations" not in extras
    assert set(extras["log"]) == {"/reward_terms/alive", "/reward_terms/centred"}
    observations, rewards, done, extras = env.step(actions)
    assert done.tolist() == extras["time_outs"].tolist() == [True, True]
    assert env.episode_length_buf.tolist() == [0, 0]
    assert rewards.dtype == torch.float32
    assert not torch.equal(extras["final_observations"]["policy"], observations["policy"])
    assert torch.equal(env.get_observations()["policy"], observations["policy"])
    env.close()


def test_observations_can_be_grouped_by_terms(adapter: Any, torch: Any) -> None:
    pytest.importorskip("mujoco")
    made = api.make("mujoco:quadruped-walk", 2, transport="inproc", framework="rsl_rl")
    groups = {"policy": ["projected_gravity", "last_action"], "critic": ["base_lin_vel"]}
    env = adapter(made, groups=groups, seed=1)
    seen, _ = env.reset(seed=1)
    assert {name: tuple(value.shape) for name, value in seen.items()} == {"policy": (2, 15), "critic": (2, 3)}
    whole, _ = made.reset(seed=1)
    assert np.array_equal(seen["policy"][:, :3].numpy(), whole[:, 6:9])
    with pytest.raises(ValueError, match=r"no observation terms \['height'\]; there are: base_lin_vel, "):
        adapter(made, groups={"policy": ["height"]})
    made.close()


def test_rsl_rl_refuses_an_env_in_another_mode_with_the_remedy(adapter: Any) -> None:
    with api.make("toy", 2, transport="inproc") as env, pytest.raises(ConfigError, match="framework='rsl_rl'"):
        adapter(env)


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


def test_stable_baselines3_refuses_an_env_in_another_mode_with_the_remedy(sb3: Any) -> None:
    from lucky_transport_frameworks.sb3 import LuckyVecEnv

    with inproc("toy", 2) as env, pytest.raises(ConfigError, match=r"has NEXT_STEP; make\(..., framework='sb3'\)"):
        LuckyVecEnv(env)


MODES = ["SameStep", "Disabled"]

#: Engines of every kind of spec, and options that end episodes within a short rollout.
ENGINES: dict[str, dict[str, Any]] = {
    "toy": {"episode_steps": 5},
    "skirmish:plains": {},
    "gymnasium:CartPole-v1": {},
    "cartpole": {},
    "mujoco:quadruped": {},
}


@pytest.fixture
def envs() -> Any:
    """The package `torchrl.envs`."""
    pytest.importorskip("torchrl", reason="torchrl is not installed: pip install torchrl")
    return pytest.importorskip("torchrl.envs")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_specs_of_every_engine_hold(envs: Any, torch: Any, engine: str, mode: str) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    with api.make(engine, 4, transport="inproc", autoreset_mode=mode, options=ENGINES[engine]) as env:
        wrapped = envs.GymWrapper(env)
        envs.check_env_specs(wrapped)
        data = wrapped.rollout(30, break_when_any_done=False)
        assert data.shape == (4, 30)
        assert torch.isfinite(data["next", "reward"]).all()


def _plain(actions: NDArray[Any], steps: int, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what `actions`, the same in each step, led to in an env without TorchRL: observations before any reset,
    rewards and ends, (num_envs, steps, ...).
    """
    rows: list[tuple[Any, Any, Any]] = []
    with api.make("toy", 4, transport="inproc", autoreset_mode="Disabled", options={"episode_steps": 9}) as env:
        env.reset(seed=seed)
        for _ in range(steps):
            observations, rewards, terminated, truncated, _ = env.step(actions)
            ended = terminated | truncated
            rows.append((observations, rewards, ended))
            if ended.any():
                env.reset(options={"reset_mask": ended})
    observations, rewards, ended = (np.stack(column, 1) for column in zip(*rows, strict=True))
    return observations, rewards, ended


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_shows_the_last_observation_of_each_episode(make: Any, envs: Any, torch: Any, mode: str) -> None:
    """Each env is pushed another way, so that they do not end together: then TorchRL resets once more, in SameStep."""
    actions = np.repeat(np.array([[1], [0.7], [-0.8], [0.2]], np.float32), 2, 1)
    wrapped = envs.GymWrapper(make("toy", 4, autoreset_mode=mode, options={"episode_steps": 9}))
    data = wrapped.rollout(
        40,
        lambda observation, *_: torch.from_numpy(actions),
        auto_reset=False,
        tensordict=wrapped.reset(seed=7),
        break_when_any_done=False,
    )
    observations, rewards, ended = _plain(actions, 40, 7)
    assert ended.any(axis=1).all()
    assert not ended.all(axis=0).any()
    assert data["next", "observation"].numpy().tobytes() == observations.tobytes()
    assert data["next", "reward"].numpy()[..., 0].tobytes() == rewards.tobytes()
    assert data["next", "done"].numpy()[..., 0].tolist() == ended.tolist()


def test_the_terms_of_the_reward_are_in_the_data(make: Any, envs: Any, torch: Any) -> None:
    data = envs.GymWrapper(make("toy", 4, autoreset_mode="SameStep", options=ENGINES["toy"])).rollout(
        12, break_when_any_done=False
    )
    terms = data["next", "reward_terms/alive"] + data["next", "reward_terms/centred"]
    assert torch.equal(terms, data["next", "reward"][..., 0])
    assert data["next", "termination_terms/time_out"].sum() == 8
