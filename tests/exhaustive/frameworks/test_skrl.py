"""skrl: `wrap_env` knows the env by itself, and PPO trains on it over Gymnasium's default mode, NextStep."""

# pyright: reportMissingImports=false

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest


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
