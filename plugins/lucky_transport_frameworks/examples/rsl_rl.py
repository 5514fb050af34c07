"""rsl_rl's PPO on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from typing import Any

import torch
from rsl_rl.runners import OnPolicyRunner

import lucky_transport
from lucky_transport_frameworks.rsl_rl import LuckyVecEnv

NETWORK = {"class_name": "MLPModel", "hidden_dims": [128, 64], "activation": "elu"}
CONFIG = {
    "num_steps_per_env": 32,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": NETWORK | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3}},
    "critic": NETWORK,
    "algorithm": {"class_name": "PPO", "num_mini_batches": 4, "num_learning_epochs": 5},
}


def train(updates: int = 300, num_envs: int = 64, **settings: Any) -> list[float]:
    """Train for `updates` times 32 steps; returns the mean rewards of the steps of an evaluation."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = LuckyVecEnv(lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="rsl_rl", **settings), seed=0)
    runner = OnPolicyRunner(env, CONFIG, log_dir=None, device="cpu")
    runner.learn(updates)
    policy = runner.get_inference_policy()
    rewards = [float(env.step(policy(env.get_observations()))[1].mean()) for _ in range(50)]
    env.close()
    return rewards


if __name__ == "__main__":
    print(train(*map(int, sys.argv[1:])))
