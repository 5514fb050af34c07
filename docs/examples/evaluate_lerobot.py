"""The calls that LeRobot's `lerobot_eval.rollout` makes of an env; put your policy in place of the random one."""

import sys
from typing import Any

import numpy as np

import lucky_transport
from lucky_transport_frameworks.lerobot import LuckyLeRobotEnv


def evaluate(steps: int = 100, num_envs: int = 2, **settings: Any) -> list[float]:
    """Step until all envs have ended or `steps` are over; returns the rewards, the images' means and the successes."""
    images = {"render_mode": "rgb_array", "render_size": (96, 96)}
    made = lucky_transport.make("mujoco:quadruped-walk", num_envs, framework="lerobot", **images, **settings)
    env = LuckyLeRobotEnv(made)
    observation, _ = env.reset(seed=list(range(7, 7 + num_envs)), options={"lerobot_new_rollout": True})
    done, successes, seen = np.zeros(num_envs, bool), np.zeros(num_envs, bool), []
    generator = np.random.default_rng(0)
    for _ in range(min(steps, env.call("_max_episode_steps")[0])):
        assert observation["pixels"].dtype == np.uint8
        assert env.call("task_description")[0]
        action = generator.uniform(-0.3, 0.3, (num_envs, 12)).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        if "final_info" in info:
            successes |= info["final_info"]["is_success"] & ~done
        done |= terminated | truncated
        seen += [float(reward.sum()), float(observation["pixels"].mean())]
        if done.all():
            break
    env.close()
    return [*seen, *map(float, successes)]


if __name__ == "__main__":
    print(evaluate(*map(int, sys.argv[1:])))
