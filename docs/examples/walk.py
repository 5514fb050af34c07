"""Quadrupeds learn to walk over each transport, alike: how well, in how many seconds, and whether bit for bit."""

# pyright: reportMissingImports=false
import sys
import time

import torch
from train_rsl_rl import evaluate, train

import lucky_transport
from lucky_transport_frameworks.rsl_rl import LuckyVecEnv

TRANSPORTS = ("grpc", "shm", "inproc")


def compare(updates: int = 300, num_envs: int = 64, seed: int = 0, steps: int = 1000) -> bool:
    """Train for `updates` times 32 steps over each transport; returns whether all evaluations are equal."""
    made = lucky_transport.make("mujoco:quadruped-walk", num_envs, transport="inproc", framework="rsl_rl")
    env = LuckyVecEnv(made)
    still = sum(evaluate(env, lambda seen: torch.zeros(num_envs, env.num_actions), steps)) / steps
    env.close()
    learnt = list[list[float]]()
    for transport in TRANSPORTS:
        start = time.perf_counter()
        learnt.append(train(updates, num_envs, seed, steps, transport=transport))
        reward = sum(learnt[-1]) / steps
        print(f"{transport}: {time.perf_counter() - start:.1f} s", end="; ")
        print(f"{reward:.3f} a step without noise, {reward / still:.2f} times what standing still earns")
    equal = all(rewards == learnt[0] for rewards in learnt)
    print("EQUAL" if equal else "DIFFERENT", "over", ", ".join(TRANSPORTS))
    return equal


if __name__ == "__main__":
    sys.exit(not compare(*map(int, sys.argv[1:])))
