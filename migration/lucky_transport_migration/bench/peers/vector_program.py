"""A training process with Gymnasium's AsyncVectorEnv: `python -m lucky_transport_migration.bench.peers.vector_program`.

It reads a pickled VectorJob from stdin and writes the pickled Measurement to stdout.

A program of its own, since its workers are forked: nothing of the bench's threads is in them, and all of them end with
it.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from lucky_transport_migration.bench.cpu import engine_cpu_ns
from lucky_transport_migration.bench.measuring import Measurement, closed_loop
from lucky_transport_migration.bench.peers.vector import VectorJob

__all__ = ["IdleEnv", "main"]


class IdleEnv(gymnasium.Env[Any, Any]):
    """An env that does nothing: what is measured is the way to it and back."""

    def __init__(self, obs_size: int, act_size: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (obs_size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (act_size,), np.float32)
        self._observation = np.zeros(obs_size, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observation, 0.0, False, False, {}


def _measure(job: VectorJob) -> Measurement:
    makers = [lambda: IdleEnv(job.obs_size, job.act_size)] * job.num_envs
    env = AsyncVectorEnv(makers, context="fork")
    try:
        env.reset()
        actions = np.zeros((job.num_envs, job.act_size), np.float32)
        before = _workers_ns(env)
        found = closed_loop(env.step, actions, job.effort, None)
        after = _workers_ns(env)
    finally:
        env.close()
    # the warm-up's share is taken out: all steps cost alike
    steps = found.samples_ns.size + found.warmup_ns.size
    found.engine_cpu_ns = None if None in (before, after) else int((after - before) * found.samples_ns.size / steps)
    return found


def _workers_ns(env: AsyncVectorEnv) -> Any:
    used = [engine_cpu_ns(worker.pid) for worker in env.processes]
    return None if None in used else sum(one for one in used if one is not None)


def main() -> None:
    """Do the job."""
    job: VectorJob = pickle.load(sys.stdin.buffer)
    pickle.dump(_measure(job), sys.stdout.buffer)


if __name__ == "__main__":
    main()
