"""What `send` and `recv` gain over `step` where envs differ in cost by ten.

    python -m tests.endurance.async_envs
    python -m tests.endurance.async_envs --num-envs 64 --fastest-ms 10 --min-envs 16

The engine's envs wait in their steps, from `--fastest-ms` to ten times as long. Prints env steps a second over shared
memory, both ways by turns (A B B A) in one run, and the load of the machine. Nothing is asserted.
"""

import os
import time

import click
import numpy as np

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv

_SPREAD = 10


def together(env: VectorEnv, seconds: float) -> float:
    """Return env steps a second of `step`, a batch at a time."""
    actions = np.zeros(env.batch_spec.action_shape, np.float32)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.step(actions)
        count += env.num_envs
    return count / (time.perf_counter() - start)


def alone(env: VectorEnv, seconds: float, min_envs: int) -> float:
    """Return env steps a second of `send` and `recv`; what is received is sent again at once."""
    actions = np.zeros(env.batch_spec.action_shape, np.float32)
    env.send(actions)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        ids = env.recv(min_envs).env_ids
        count += len(ids)
        env.send(actions[: len(ids)], ids)
    rate = count / (time.perf_counter() - start)
    env.recv(env.num_envs)
    return rate


@click.command()
@click.option("--num-envs", default=64, show_default=True)
@click.option("--fastest-ms", default=20.0, show_default=True, help="How long a step of the fastest env waits.")
@click.option("--min-envs", default=8, show_default=True, help="How many envs a `recv` waits for.")
@click.option("--seconds", default=5.0, show_default=True, help="Of each turn.")
def main(num_envs: int, fastest_ms: float, min_envs: int, seconds: float) -> None:
    """Measure, and print what was found."""
    delays_s = np.linspace(fastest_ms, _SPREAD * fastest_ms, num_envs) / 1000
    options = {"parallel_envs": num_envs, "delays_s": delays_s.tolist()}
    with api.make("toy", num_envs, transport="shm", options=options) as env:
        env.reset(seed=0)
        rates = [together(env, seconds), alone(env, seconds, min_envs)]
        rates += [alone(env, seconds, min_envs), together(env, seconds)]
    click.echo(f"{num_envs} envs of {fastest_ms:g} to {_SPREAD * fastest_ms:g} ms, env steps a second")
    click.echo(f"  step             {rates[0]:8.0f}  {rates[3]:8.0f}")
    click.echo(f"  send and recv    {rates[1]:8.0f}  {rates[2]:8.0f}")
    click.echo(f"  ratio            {(rates[1] + rates[2]) / (rates[0] + rates[3]):8.2f}")
    click.echo(f"  {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
