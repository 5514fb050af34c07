"""Measures how a batch scales over actors on this machine, and what one exchange costs.

    python -m lucky_transport_ray.measure mujoco:quadruped --options '{"threads":1}'

Prints one row per variant: env steps a second (the median of several runs), and the time of an exchange. `inproc` is
the engine in this process, `shm` in one of its own, `ray N` over N actors.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv

__all__ = ["measure"]


@click.command()
@click.argument("engine", default="mujoco:quadruped")
@click.option("--num-envs", default=1024, show_default=True)
@click.option("--actors", default="1,2", show_default=True, help="Numbers of actors, apart by commas.")
@click.option("--seconds", default=1.0, show_default=True, help="How long one run steps.")
@click.option("--runs", default=5, show_default=True)
@click.option("--options", default="{}", help="Options of the engine's constructor, as a JSON object.")
@click.option("--cpus", default=1.0, show_default=True, help="CPUs that each actor takes of its node.")
def measure(engine: str, num_envs: int, actors: str, seconds: float, runs: int, options: str, cpus: float) -> None:
    """Print how ENGINE scales over actors of this machine."""
    variants = ["inproc", "shm", *(f"ray {number}" for number in actors.split(","))]
    click.echo(f"{engine}, {num_envs} envs, median of {runs} runs of {seconds:g} s")
    click.echo(f"{'variant':10}{'env steps/s':>14}{'exchange, ms':>14}{'bytes there':>13}{'bytes back':>12}")
    for variant in variants:
        with _opened(variant, engine, num_envs, json.loads(options), cpus) as env:
            there, back = _exchange_bytes(env)
            rates = [_rate(env, seconds) for _ in range(runs)]
        rate = statistics.median(rates)
        click.echo(f"{variant:10}{rate * num_envs:14,.0f}{1e3 / rate:14.2f}{there:13,}{back:12,}", nl=True)


@contextmanager
def _opened(variant: str, engine: str, num_envs: int, options: dict[str, Any], cpus: float) -> Iterator[VectorEnv]:
    if variant.startswith("ray"):
        actors = variant.split()[1]
        text = json.dumps(options)
        query = f"engine={engine}&actors={actors}&num_envs={num_envs}&options={text}&cpus={cpus}&seed=0"
        env = api.make(endpoint=f"ray:?{query}")
    else:
        env = api.make(engine, num_envs, seed=0, options=options, transport=variant)
    with env:
        env.reset(seed=0)
        yield env


def _rate(env: VectorEnv, seconds: float) -> float:
    """Return exchanges a second."""
    actions = np.zeros(env.batch_spec.action_shape, env.batch_spec.action.dtype)
    for _ in range(3):
        env.step(actions)
    begun, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds:
        env.step(actions)
        count += 1
    return count / passed


def _exchange_bytes(env: VectorEnv) -> tuple[int, int]:
    """Return how many bytes the actions of one exchange have, and its frame."""
    spec = env.batch_spec
    each = spec.observation.size_bytes + 4 + 2 + 4 * spec.num_terms
    return spec.num_envs * spec.action.size_bytes, spec.num_envs * each


if __name__ == "__main__":
    measure()
