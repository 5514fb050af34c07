"""Trains a quadruped's linear policy by random search, as a user of luckyrobots 0.5.0 would write it.

    python train.py --port PORT

It knows nothing of lucky_transport. What it prints holds a digest of everything that the engine answered.
"""

import argparse
import hashlib
import json
import time

import numpy as np
from luckyrobots import LuckyEngineClient, LuckyEnv

REWARDS = ["track_lin_vel_xy", "alive"]
TERMINATIONS = ["fell_over", "time_out"]
EPISODES = 6
STEPS = 50


def reward(signals):
    return signals["track_lin_vel_xy"] + 0.1 * signals["alive"]


def train(port):
    random, digest = np.random.default_rng(0), hashlib.sha256()
    env = LuckyEnv(
        robot="quadruped",
        scene="flat",
        reward_fn=reward,
        reward_terms=REWARDS,
        termination_terms=TERMINATIONS,
        port=port,
        timeout=2.0,
    )
    monitor = LuckyEngineClient(port=port)
    monitor.connect()
    shape = (env.action_space.shape[0], env.observation_space.shape[0])
    best, best_weights = float("-inf"), np.zeros(shape)
    start = time.perf_counter()
    for _ in range(EPISODES):
        weights, total = best_weights + random.normal(0, 0.05, shape), 0.0
        observation, _ = env.reset()
        for _ in range(STEPS):
            observation, gain, terminated, truncated, _ = env.step(np.tanh(weights @ observation))
            joints = monitor.get_joint_state("quadruped").state.positions
            digest.update(observation.tobytes() + np.array(joints, np.float32).tobytes())
            digest.update(repr((gain, terminated, truncated)).encode())
            total += gain
            if terminated or truncated:
                break
        if total > best:
            best, best_weights = total, weights
    took = time.perf_counter() - start
    monitor.close()
    env.close()
    return {"trajectory": digest.hexdigest(), "best": best, "seconds": took}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    print(json.dumps(train(parser.parse_args().port)))
