"""skrl's PPO on walking robots, over the transport that `LUCKY_TRANSPORT` names."""

# pyright: reportMissingImports=false
import sys
from typing import Any

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer as Trainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

import lucky_transport


def train(steps: int = 9600, num_envs: int = 64, **settings: Any) -> list[float]:
    """Train for `steps` steps of every env; returns the mean rewards of the steps of an evaluation."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env = wrap_env(lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="skrl", seed=0, **settings))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [128, 64], "activations": "elu"}]
    policy = gaussian_model(**spaces, network=network, output="ACTIONS", initial_log_std=-1.2)
    models = {"policy": policy, "value": deterministic_model(**spaces, network=network, output="ONE")}
    config = PPO_CFG(rollouts=32, learning_epochs=5, mini_batches=4, learning_rate=3e-4)
    config.experiment.write_interval = config.experiment.checkpoint_interval = 0
    ppo = PPO(models=models, memory=RandomMemory(memory_size=32, num_envs=num_envs), cfg=config, **spaces)
    Trainer(env=env, agents=ppo, cfg={"timesteps": steps, "headless": True, "close_environment_at_exit": False}).train()
    seen, rewards = env.reset()[0], list[float]()
    for _ in range(50):
        seen, reward, *_ = env.step(policy.act({"observations": seen}, role="policy")[1]["mean_actions"].detach())
        rewards.append(float(reward.mean()))
    env.close()
    return rewards


if __name__ == "__main__":
    print(train(*map(int, sys.argv[1:])))
