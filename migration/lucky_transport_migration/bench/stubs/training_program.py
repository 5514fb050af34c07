"""A training loop as a user of luckyrobots 0.5.0 has it: `training_program.py PORT SECONDS RESULT`.

It knows nothing of lucky_transport: where its channel goes is decided outside. It acts by a small policy, and writes
how many steps it made, in how long and with how much CPU time, into the file RESULT.

A step that is not the one after the last within its episode ends the program with an error.
"""

# pyright: basic, reportMissingImports=false
# Reason: luckyrobots ships no types, and need not be installed.

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from luckyrobots import LuckyEnv

_HIDDEN = 64
_ACTIONS = 12
_TIMEOUT_S = 2.0  # 0.5.0 waits so long in vain when it connects


class PolicyNetwork:
    """A network of two hidden layers with weights drawn once."""

    def __init__(self, inputs: int, outputs: int) -> None:
        random = np.random.default_rng(0)
        sizes = (inputs, _HIDDEN, _HIDDEN, outputs)
        self._layers = [random.normal(0, 0.1, pair).astype(np.float32) for pair in pairwise(sizes)]

    def act(self, observation: np.ndarray) -> np.ndarray:
        """Return the actions for an observation."""
        found = observation
        for layer in self._layers:
            found = np.tanh(found @ layer)
        return found


def train(env: LuckyEnv, seconds: float) -> dict[str, int]:
    """Step for that long; a tenth before is warm-up."""
    policy = PolicyNetwork(env.reset()[0].size, _ACTIONS)
    _steps(env, policy, seconds / 10)
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    steps = _steps(env, policy, seconds)
    return {"n": steps, "took_ns": time.perf_counter_ns() - start, "cpu_ns": time.process_time_ns() - cpu}


def _steps(env: LuckyEnv, policy: PolicyNetwork, seconds: float) -> int:
    observation, info = env.reset()
    frame, steps, end = info["frame_number"], 0, time.perf_counter() + seconds
    while time.perf_counter() < end or not steps:
        observation, _, terminated, truncated, info = env.step(policy.act(observation))
        steps, frame = steps + 1, frame + 1
        if info["frame_number"] != frame:
            raise SystemExit(f"frame {info['frame_number']} came where frame {frame} was due")
        if terminated or truncated:
            observation, info = env.reset()
            frame = info["frame_number"]
    return steps


if __name__ == "__main__":
    port, seconds, result = sys.argv[1:]
    with LuckyEnv(robot="quadruped", scene="flat", port=int(port), timeout=_TIMEOUT_S) as env:
        Path(result).write_text(json.dumps(train(env, float(seconds))))
