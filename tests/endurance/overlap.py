"""What observation slots cost an engine's step, and what they gain a policy that works while the engine steps.

    python -m tests.endurance.overlap
    python -m tests.endurance.overlap --num-envs 1024 --obs-size 400 --steps 500

Prints the best and the median of rounds of interleaved variants, in microseconds. On a machine with other work the best
is the one to read. Nothing is asserted.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click
import numpy as np

from lucky_transport import api
from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.host.slots import ObservationSlots, SlotWriter
from lucky_transport.process import EngineProcess, unique_name

_ACT_SIZE = 12
#: Microseconds of each round, by variant.
Rounds = dict[str, list[float]]


def costs(num_envs: int, obs_size: int, steps: int, rounds: int) -> Rounds:
    """Return the CPU time of an engine's step, which writes its observations or nothing, with one slot and with two."""
    variants: dict[str, Callable[[None], object]] = {}
    for writes in (True, False):
        engines = [ToyEngine(num_envs, obs_size=obs_size, idle=True, copy_frame=writes) for _ in range(2)]
        slots = [Buffers.allocate(engines[0].spec)]
        slots.append(replace(slots[0], observations=np.zeros_like(slots[0].observations)))
        engines[0].bind(slots[0])
        what = "the engine writes its observations" if writes else "the engine writes nothing"
        variants[f"1 slot, {what}"] = engines[0].step
        how = "in place" if writes else "and the host copies them all"
        variants[f"2 slots, {what}, {how}"] = SlotWriter(engines[1], ObservationSlots(slots, _alternating())).step
    return _measured(
        {name: lambda step=step: step(None) for name, step in variants.items()}, steps, rounds, time.thread_time
    )


def _alternating() -> Callable[[], int]:
    turn = 0

    def following() -> int:
        nonlocal turn
        turn = 1 - turn
        return turn

    return following


def loops(engine: str, num_envs: int, obs_size: int, steps: int, rounds: int) -> Rounds:
    """Return the time of a step and a policy's work on the observations before it, by how the loop is written."""
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

    ways: Sequence[tuple[str, int, bool, Callable[[VectorEnv], Callable[[], object]]]] = (
        ("step, copies", 1, True, after),
        ("step, views", 1, False, after),
        ("step_async, copies", 1, True, meanwhile),
        ("step_async, views in two slots", 2, False, meanwhile),
    )
    with ExitStack() as stack:
        variants = {name: how(_env(stack, engine, num_envs, obs_size, slots, copy)) for name, slots, copy, how in ways}
        return _measured(variants, steps, rounds, time.perf_counter)


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


def _measured(variants: dict[str, Callable[[], object]], steps: int, rounds: int, clock: Callable[[], float]) -> Rounds:
    found: Rounds = {name: [] for name in variants}
    for _ in range(rounds):
        for name, once in variants.items():
            for _ in range(steps // 10 + 1):
                once()
            start = clock()
            for _ in range(steps):
                once()
            found[name].append((clock() - start) / steps * 1e6)
    return found


@click.command()
@click.option("--num-envs", default=4096, show_default=True)
@click.option("--obs-size", default=100, show_default=True)
@click.option("--steps", default=100, show_default=True, help="Steps of a variant in a round.")
@click.option("--rounds", default=15, show_default=True)
def main(num_envs: int, obs_size: int, steps: int, rounds: int) -> None:
    """Measure, and print what was found."""
    for envs, size in ((1, 8), (num_envs, obs_size)):
        click.echo(f"\nCPU of a step, {envs} env(s) of {size} float32: best, median")
        _show(costs(envs, size, steps * (100 if envs == 1 else 1), rounds))
    for engine in ("toy:copy", "toy"):
        click.echo(f"\nstep of {engine} and tanh of its observations, {num_envs} envs of {obs_size}: best, median")
        _show(loops(engine, num_envs, obs_size, steps, rounds))


def _show(rounds: Rounds) -> None:
    for name, micros in rounds.items():
        click.echo(f"  {min(micros):10.2f}  {statistics.median(micros):10.2f}  {name}")


if __name__ == "__main__":
    main()
