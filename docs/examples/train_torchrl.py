"""TorchRL's PPO on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from typing import Any

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch.nn import ELU, Linear, Sequential
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import lucky_transport


def train(updates: int = 300, num_envs: int = 64, **settings: Any) -> list[float]:
    """Train for `updates` times 32 steps; returns the mean reward of each update."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = GymWrapper(lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="torchrl", seed=0, **settings))
    net = Sequential(Linear(50, 128), ELU(), Linear(128, 24), NormalParamExtractor("biased_softplus_0.3"))
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True)
    critic = ValueOperator(Sequential(Linear(50, 128), ELU(), Linear(128, 1)))
    loss, advantage = ClipPPOLoss(actor, critic), GAE(gamma=0.98, lmbda=0.95, value_network=critic)
    optimizer, rewards, frames = torch.optim.Adam(loss.parameters(), 3e-4), list[float](), 32 * num_envs
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=frames * updates):
        for rows in advantage(batch).reshape(-1).chunk(4) * 5:
            optimizer.zero_grad()
            torch.stack([value for name, value in loss(rows).items() if name[:5] == "loss_"]).sum().backward()
            optimizer.step()
        rewards.append(float(batch["next", "reward"].mean()))
    return rewards


if __name__ == "__main__":
    print(train(*map(int, sys.argv[1:])))
