"""`lucky-transport parity`: the same engine over several transports, compared bit for bit."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from lucky_transport_migration.cli.arguments import JSON_OBJECT, NAMES

__all__ = ["parity"]


@click.command(
    epilog="\b\nExample:\n"
    "  lucky-transport parity mujoco:quadruped --between grpc,shm --num-envs 16 --steps 2000 --autoreset all"
)
@click.argument("engine")
@click.option(
    "--between", default="grpc,shm", show_default=True, type=NAMES, help="Paths to compare, the yardstick first."
)
@click.option("--num-envs", default=16, show_default=True, type=click.IntRange(min=1), help="Envs stepped together.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(min=1), help="Steps per autoreset mode.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of engines and policy.")
@click.option(
    "--autoreset",
    default="next_step",
    show_default=True,
    type=click.Choice(["next_step", "same_step", "disabled", "all"]),
    help="Autoreset mode of the compared envs.",
)
@click.option("--options", default="{}", type=JSON_OBJECT, help="Options of the engine's constructor, a JSON object.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def parity(
    engine: str,
    between: tuple[str, ...],
    num_envs: int,
    steps: int,
    seed: int,
    autoreset: str,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Prove that ENGINE answers the same over several transports.

    Starts one engine process per path with the same seed, makes the same moves on all (steps, resets of all, of one and
    of some envs, actions out of bounds, wrong calls) and compares every value bit for bit. Paths: shm, grpc (the legacy
    per-agent Step), grpc-batch, inproc, or any installed transport. Exit code 0 only when all are equal.
    """
    from lucky_transport_migration import tables
    from lucky_transport_migration.parity import MODES, prove, total_steps
    from lucky_transport_migration.progress import watched

    modes = MODES if autoreset == "all" else (autoreset,)
    with watched("comparing", total_steps(steps, modes), silent=as_json) as advance:
        outcome = prove(
            engine, between, num_envs=num_envs, steps=steps, seed=seed, modes=modes, options=options, advance=advance
        )
    if as_json:
        click.echo(json.dumps(outcome.plain(), indent=2, allow_nan=False))
    else:
        tables.show_parity(outcome)
    sys.exit(0 if outcome.equal else 1)
