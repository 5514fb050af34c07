"""Trains a policy over one transport, and its first updates over others: what `lucky-transport train` shows.

Everything but times follows from the seed. What a transport costs is measured apart, with an engine that does nothing
and has the same sizes.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import Unimplemented
from lucky_transport.registry import load
from lucky_transport_migration.training.page import share

Advance = Callable[[str], None]

#: The small PPO, which is a plugin's.
_ppo = partial(load, owner="train", extra="train")
Learner, evaluate, Hyperparameters = (
    _ppo(f"lucky_transport_frameworks.ppo:{name}") for name in ("Learner", "evaluate", "Hyperparameters")
)

#: An evaluation: so many envs, from a seed of its own.
_EVALUATED_ENVS, _EVALUATED_SEED = 32, 1_000_000

#: The pictures: so many, so many steps apart, after the robot has set off. Together one cycle of the gait.
_PICTURES, _APART, _SETTING_OFF = 8, 3, 150
_PICTURE_SIZE = (560, 420)
_CLOSE_UP = (slice(100, 370), slice(120, 480))  # rows and columns: the robot with a little ground

_IDLE_STEPS = 400


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained.

    compared: the transports over which the first `compared_updates` updates are made again. evaluated_steps: those of
    each env in an evaluation.
    """

    engine: str
    num_envs: int
    updates: int
    seed: int
    transport: str
    compared: tuple[str, ...]
    compared_updates: int
    evaluated_steps: int
    command: str

    @property
    def pieces(self) -> int:
        """How many times `run_training` calls `advance`."""
        return self.updates + len(self.compared) * self.compared_updates + 3


def run_training(plan: TrainingPlan, report: Path, advance: Advance) -> dict[str, Any]:
    """Return the training's result as JSON values; the policy goes to `report`/policy.pt.

    Sets torch to one thread. Raises ConfigError for an engine that PPO cannot learn on, and what starting and driving
    engines raises.
    """
    torch.set_num_threads(1)
    with _make(plan, plan.transport, _EVALUATED_ENVS) as judged:
        still = evaluate(None, judged, _EVALUATED_SEED, plan.evaluated_steps)
        advance("standing still was evaluated")
        policy, rows, seconds = _train(plan, plan.transport, plan.updates, advance)
        evaluated = evaluate(policy, judged, _EVALUATED_SEED, plan.evaluated_steps)
        advance("the policy was evaluated")
    comparison = [_compared(plan, name, rows, advance) for name in plan.compared]
    report.mkdir(parents=True, exist_ok=True)
    torch.save(policy.state_dict(), report / "policy.pt")
    pictures = _pictures(plan, policy)
    advance("pictures were taken")
    result: dict[str, Any] = dataclasses.asdict(plan) | {
        "rows": [dataclasses.asdict(row) for row in rows],
        "env_steps": rows[-1].env_steps,
        "horizon": Hyperparameters().horizon,
        "seconds": seconds,
        "still": still,
        "evaluated": evaluated,
        "comparison": comparison,
        "equal": all(one["equal"] for one in comparison),
        "pictures": pictures,
        "picture_steps": _APART,
        "measured_at": time.strftime("%Y-%m-%d %H:%M %Z"),
        "machine": _machine(),
    }
    return result | {"verdict": _verdict(result)}


def _make(plan: TrainingPlan, transport: str, num_envs: int, **settings: Any) -> VectorEnv:
    return api.make(plan.engine, num_envs, transport=transport, framework="ppo", copy=False, **settings)


def _train(plan: TrainingPlan, transport: str, updates: int, advance: Advance) -> tuple[Any, list[Any], float]:
    """Return the policy, what each update saw, and the seconds that all updates took."""
    rows: list[Any] = []
    with _make(plan, transport, plan.num_envs) as env:
        learner = Learner(env, plan.seed)
        start = time.perf_counter()
        for _ in range(updates):
            rows.append(learner.update())
            advance(f"{transport}: reward {rows[-1].reward:.2f} a step")
        return learner.policy, rows, time.perf_counter() - start


def _compared(plan: TrainingPlan, transport: str, rows: list[Any], advance: Advance) -> dict[str, Any]:
    """Make the first updates over `transport`; times are medians per step of the batch, in microseconds."""
    updates = min(plan.compared_updates, len(rows))
    _, again, seconds = _train(plan, transport, updates, advance)
    for _ in range(plan.compared_updates - updates):
        advance(f"{transport}: done")
    steps = Hyperparameters().horizon

    def us(part: str) -> float:
        return float(np.median([getattr(row, part) for row in again])) / steps * 1e6

    return {
        "transport": transport,
        "updates": updates,
        "equal": all(map(_same, again, rows[:updates])),
        "rewards": [row.reward for row in again],
        "seconds": seconds,
        "env_us": us("env_s"),
        "policy_us": us("rollout_s") - us("env_s"),
        "learning_us": us("learning_s"),
        "alone_us": _alone(plan, transport),
    }


def _same(one: Any, other: Any) -> bool:
    """True when both saw the same numbers, bit for bit; episodes may not have ended in either."""
    numbers = [list(_numbers(row)) for row in (one, other)]
    return np.array(numbers[0]).tobytes() == np.array(numbers[1]).tobytes()


def _numbers(row: Any) -> list[float]:
    return [row.env_steps, row.reward, row.episode_return, row.episode_steps, row.kl, row.rate, *row.terms.values()]


def _alone(plan: TrainingPlan, transport: str) -> float:
    """Return the median microseconds of a step of an engine that does nothing, of the same sizes."""
    with _make(plan, "inproc", 1) as env:
        spec = env.batch_spec
    options = {"obs_size": spec.observation.size, "act_size": spec.action.size}
    with api.make("toy:idle", plan.num_envs, transport=transport, options=options, copy=False) as env:
        env.reset()
        actions = np.zeros(env.batch_spec.action_shape, np.float32)
        took: list[float] = []
        for _ in range(_IDLE_STEPS):
            start = time.perf_counter()
            env.step_async(actions)
            env.step_wait()
            took.append(time.perf_counter() - start)
    return float(np.median(took[_IDLE_STEPS // 4 :])) * 1e6


def _pictures(plan: TrainingPlan, policy: Any) -> list[NDArray[np.uint8]]:
    """Return images of one robot under the policy, uint8 (height, width, 3); none where the engine has no camera."""
    try:
        env = _make(plan, plan.transport, 1, render_mode="rgb_array", render_size=_PICTURE_SIZE)
    except Unimplemented:
        return []
    images: list[NDArray[np.uint8]] = []
    with env:
        observation, _ = env.reset(seed=_EVALUATED_SEED)
        for step in range(_SETTING_OFF + _PICTURES * _APART):
            if step >= _SETTING_OFF and (step - _SETTING_OFF) % _APART == 0:
                images.append(env.render()[0][_CLOSE_UP])
            observation, *_ = env.step(policy.act(observation))
    return images


def _machine() -> dict[str, str]:
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}",
        "system": platform.platform(),
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in ("torch", "numpy", "gymnasium", "lucky-transport")},
    }


def _verdict(result: dict[str, Any]) -> list[str]:
    """Return what the page and the terminal say first."""
    times = result["evaluated"] / result["still"] if result["still"] > 0 else float("inf")
    sentences = [
        f"After {result['seconds']:.0f} s and {result['env_steps']:,} env steps the policy earns "
        f"{result['evaluated']:.2f} a step without noise, {times:.2f} times what standing still earns "
        f"({result['still']:.2f})."
    ]
    if result["comparison"]:
        names = ", ".join(one["transport"] for one in result["comparison"])
        updates = result["comparison"][0]["updates"]
        sentences.append(
            f"EQUAL: the first {updates} updates over {names} give the same numbers, bit for bit."
            if result["equal"]
            else f"DIFFERENT: the first {updates} updates over {names} do not give the same numbers."
        )
        sentences += [
            f"{one['transport']}: {one['seconds']:.1f} s; {share(one):.1%} of a training step is transport."
            for one in result["comparison"]
        ]
    return sentences
