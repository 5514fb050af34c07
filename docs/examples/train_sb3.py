"""Stable-Baselines3's PPO on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import lucky_transport
from lucky_transport_frameworks.sb3 import LuckyVecEnv


def train(steps: int = 500_000, num_envs: int = 32, **settings: Any) -> list[float]:
    """Train for `steps` steps, over all envs; returns the returns of the last episodes, and the policy's noise."""
    torch.set_num_threads(1)
    made = lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="sb3", **settings)
    env = VecMonitor(LuckyVecEnv(made))
    options = {"n_steps": 64, "batch_size": 256, "n_epochs": 5, "policy_kwargs": {"log_std_init": -1.2}}
    model = PPO("MlpPolicy", env, device="cpu", seed=0, verbose=1, **options)
    model.learn(steps)
    env.close()
    return [float(episode["r"]) for episode in model.ep_info_buffer] + model.policy.log_std.tolist()


if __name__ == "__main__":
    print(train(*map(int, sys.argv[1:])))
