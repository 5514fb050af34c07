"""What observation slots cost an exchange, and what they gain a policy that works while the engine steps.

    python -m tests.endurance.overlap
    python -m tests.endurance.overlap --num-envs 1024 --obs-size 400 --steps 500

Prints two tables, in microseconds: the best and the median of rounds of interleaved variants. On a machine with other
work the best is the one to read. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click
import numpy as np

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import EngineProcess, unique_name

_ACT_SIZE = 12
#: Variants of an exchange: engine, slots, what happens to the observations.
_EXCHANGES = (
    ("toy:copy", 1, "the engine writes them"),
    ("toy:copy", 2, "the engine writes them, into each slot in place"),
    ("toy:idle", 1, "nothing"),
    ("toy:idle", 2, "the host copies them into each slot"),
)


def _env(stack: ExitStack, engine: str, num_envs: int, obs_size: int, slots: int, copy: bool) -> VectorEnv:
    options = {"obs_size": obs_size, "act_size": _ACT_SIZE, "episode_steps": 10**9}
    process = EngineProcess(
        engine, [f"shm://{unique_name()}"], num_envs=num_envs, options=options, observation_slots=slots
    )
    stack.callback(process.stop)
    env = api.make(endpoint=str(process.endpoints[0]), observation_slots=slots, copy=copy)
    stack.callback(env.close)
    env.reset(seed=0)
    return env


#: Microseconds of each round, by variant.
Rounds = dict[str, list[float]]


def _per_step_us(step: Callable[[], object], steps: int) -> float:
    for _ in range(steps // 10 + 1):
        step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps * 1e6


def exchanges(num_envs: int, obs_size: int, steps: int, rounds: int) -> Rounds:
    """Return the microseconds of an exchange by what happens to the observations."""
    with ExitStack() as stack:
        found: Rounds = {}
        variants: dict[str, Callable[[], object]] = {}
        for engine, slots, what in _EXCHANGES:
            transport = _env(stack, engine, num_envs, obs_size, slots, copy=False).transport
            variants[f"{slots} slot(s), {what}"] = lambda transport=transport: transport.step(transport.actions)
        for _ in range(rounds):
            for name, step in variants.items():
                found.setdefault(name, []).append(_per_step_us(step, steps))
        return found


def loops(engine: str, num_envs: int, obs_size: int, steps: int, rounds: int) -> Rounds:
    """Return the microseconds of a step and a policy's work on the observations before it, by how both are written."""
    actions = np.zeros((num_envs, _ACT_SIZE), np.float32)

    def after(env: VectorEnv) -> Callable[[], object]:
        held: list[Any] = [env.step(actions)[0]]

        def once() -> None:
            np.tanh(held[0]).sum()
            held[0] = env.step(actions)[0]

        return once

    def meanwhile(env: VectorEnv) -> Callable[[], object]:
        held: list[Any] = [env.step(actions)[0]]

        def once() -> None:
            env.step_async(actions)
            np.tanh(held[0]).sum()
            held[0] = env.step_wait()[0]

        return once

    ways: dict[str, tuple[int, bool, Callable[[VectorEnv], Callable[[], object]]]] = {
        "step, copies": (1, True, after),
        "step, views": (1, False, after),
        "step_async, copies": (1, True, meanwhile),
        "step_async, views in two slots": (2, False, meanwhile),
    }
    with ExitStack() as stack:
        variants = {
            name: how(_env(stack, engine, num_envs, obs_size, slots, copy)) for name, (slots, copy, how) in ways.items()
        }
        found: Rounds = {}
        for _ in range(rounds):
            for name, once in variants.items():
                found.setdefault(name, []).append(_per_step_us(once, steps))
        return found


@click.command()
@click.option("--num-envs", default=4096, show_default=True)
@click.option("--obs-size", default=100, show_default=True)
@click.option("--steps", default=100, show_default=True, help="Steps of a variant in a round.")
@click.option("--rounds", default=15, show_default=True)
def main(num_envs: int, obs_size: int, steps: int, rounds: int) -> None:
    """Measure, and print what was found."""
    for envs, size in ((1, 8), (num_envs, obs_size)):
        click.echo(f"\none exchange, {envs} env(s) of {size} float32:")
        _show(exchanges(envs, size, steps * (10 if envs == 1 else 1), rounds))
    for engine in ("toy:copy", "toy"):
        click.echo(f"\na step of {engine} and a policy's tanh, {num_envs} envs of {obs_size} float32:")
        _show(loops(engine, num_envs, obs_size, steps, rounds))


def _show(rounds: Rounds) -> None:
    for name, micros in rounds.items():
        click.echo(f"  {min(micros):10.1f}  {statistics.median(micros):10.1f}  {name}")


if __name__ == "__main__":
    main()
