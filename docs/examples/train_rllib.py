"""RLlib's PPO, new API stack, on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from lucky_transport_frameworks.rllib import configured


def train(updates: int = 100, num_envs: int = 16, **settings: Any) -> list[float]:
    """Train for `updates` times 512 steps, over all envs; returns the env's return and the loss of each update."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    config = configured(PPOConfig(), "mujoco:quadruped-walk", num_envs, seed=0, **settings)
    config = config.env_runners(num_env_runners=0, rollout_fragment_length=512 // num_envs)
    config = config.training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=5, lr=3e-4)
    algorithm = config.debugging(seed=0).build_algo()
    numbers = list[float]()
    for _ in range(updates):
        result = algorithm.train()
        numbers += [result["env_runners"].get("episode_return_mean", 0.0)]
        numbers += [float(result["learners"]["default_policy"]["total_loss"])]
        print(*numbers[-2:])
    algorithm.stop()
    ray.shutdown()
    return numbers


if __name__ == "__main__":
    train(*map(int, sys.argv[1:]))
