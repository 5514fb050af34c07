"""skrl and rsl_rl: their runners recognise our env, or its adapter, and train on it."""

# pyright: reportMissingImports=false

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError

# --- skrl: `wrap_env` knows the env by itself, over Gymnasium's default mode, NextStep ---


@pytest.fixture
def skrl() -> Iterator[Any]:
    """The package; what it logs when the process ends would go to a stream that pytest has closed by then."""
    yield pytest.importorskip("skrl", reason="skrl is not installed: pip install skrl")
    logging.getLogger("skrl").handlers.clear()


def _models(torch: Any, env: Any) -> dict[str, Any]:
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    class Policy(GaussianMixin, Model):
        def __init__(self) -> None:
            Model.__init__(
                self, observation_space=env.observation_space, action_space=env.action_space, device=env.device
            )
            GaussianMixin.__init__(self)
            self.net = torch.nn.Linear(self.num_observations, self.num_actions)
            self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

        def compute(self, inputs: Any, role: str) -> Any:
            return self.net(inputs["observations"]), {"log_std": self.log_std}

    class Value(DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(
                self, observation_space=env.observation_space, action_space=env.action_space, device=env.device
            )
            DeterministicMixin.__init__(self)
            self.net = torch.nn.Linear(self.num_observations, 1)

        def compute(self, inputs: Any, role: str) -> Any:
            return self.net(inputs["observations"]), {}

    return {"policy": Policy(), "value": Value()}


def test_the_env_is_recognised_and_ppo_trains(make: Any, skrl: Any, torch: Any) -> None:
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.trainers.torch import SequentialTrainer

    plain = make("toy", 4, options={"episode_steps": 7})
    env = wrap_env(plain)
    models = _models(torch, env)
    before = [one.detach().clone() for one in models["policy"].parameters()]
    configuration = PPO_CFG(rollouts=20, learning_epochs=2, mini_batches=2)
    configuration.experiment.write_interval = configuration.experiment.checkpoint_interval = 0
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=20, num_envs=env.num_envs, device=env.device),
        cfg=configuration,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
    )
    trainer = SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": 100, "headless": True, "disable_progressbar": True}
    )
    trainer.train()
    assert any(not torch.equal(old, new) for old, new in zip(before, models["policy"].parameters(), strict=True))


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


def _configuration() -> dict[str, Any]:
    network = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    return {
        "num_steps_per_env": 20,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": dict(network),
        "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "num_learning_epochs": 2},
    }


def test_the_runner_trains(make: Any, adapter: Any, torch: Any) -> None:
    from rsl_rl.runners import OnPolicyRunner

    env = adapter(make("toy", 4, framework="rsl_rl", options={"episode_steps": 7}), seed=0)
    runner = OnPolicyRunner(env, _configuration(), log_dir=None, device="cpu")
    before = [one.detach().clone() for one in runner.alg.get_policy().parameters()]
    runner.learn(5)
    assert any(not torch.equal(old, new) for old, new in zip(before, runner.alg.get_policy().parameters(), strict=True))
    observations, _ = env.reset(seed=3)
    assert torch.equal(observations["policy"], env.get_observations()["policy"])
    assert env.episode_length_buf.tolist() == [0] * 4


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


def test_an_env_in_another_mode_is_refused_with_the_remedy(adapter: Any) -> None:
    with api.make("toy", 2, transport="inproc") as env, pytest.raises(ConfigError, match="framework='rsl_rl'"):
        adapter(env)
