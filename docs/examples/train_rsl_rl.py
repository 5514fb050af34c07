"""rsl_rl's PPO on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from collections.abc import Callable
from typing import Any

import torch
from rsl_rl.runners import OnPolicyRunner

import lucky_transport
from lucky_transport_frameworks.rsl_rl import LuckyVecEnv

NETWORK = {"class_name": "MLPModel", "hidden_dims": [128, 64], "activation": "elu", "obs_normalization": True}
CONFIG = {
    "num_steps_per_env": 32,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": NETWORK | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3}},
    "critic": NETWORK,
    "algorithm": {"class_name": "PPO", "desired_kl": 0.02, "learning_rate": 3e-4, "entropy_coef": 0.001},
}


def train(updates: int = 300, num_envs: int = 64, seed: int = 0, steps: int = 50, **settings: Any) -> list[float]:
    """Train for `updates` times 32 steps; returns the mean rewards of the steps of an evaluation without noise."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    made = lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="rsl_rl", **settings)
    env = LuckyVecEnv(made, seed=seed)
    runner = OnPolicyRunner(env, CONFIG, log_dir=None, device="cpu")
    runner.learn(updates)
    rewards = evaluate(env, runner.get_inference_policy(), steps)
    env.close()
    return rewards


@torch.no_grad()
def evaluate(env: LuckyVecEnv, policy: Callable[[Any], torch.Tensor], steps: int) -> list[float]:
    """Return the mean rewards of so many steps, from a reset on."""
    seen, _ = env.reset(seed=1_000_000)
    rewards = list[float]()
    for _ in range(steps):
        seen, reward, *_ = env.step(policy(seen))
        rewards.append(float(reward.mean()))
    return rewards


if __name__ == "__main__":
    print(train(*map(int, sys.argv[1:])))
