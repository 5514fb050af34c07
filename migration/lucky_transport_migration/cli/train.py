"""`lucky-transport train`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command(
    epilog="\b\nExamples:\n  lucky-transport train\n  lucky-transport train --updates 1000 --between '' --report ./walk"
)
@click.option("--engine", default="mujoco:quadruped-walk", show_default=True, help="Engine to learn on.")
@click.option("--num-envs", default=64, show_default=True, type=click.IntRange(min=1), help="Envs stepped together.")
@click.option("--updates", default=300, show_default=True, type=click.IntRange(min=1), help="Updates of the policy.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of envs and policy.")
@click.option("--transport", default="shm", show_default=True, help="Transport to train over.")
@click.option(
    "--between",
    "compare",
    default="grpc,shm,inproc",
    show_default=True,
    help="Transports whose first updates are compared; '' for none.",
)
@click.option(
    "--compare-updates", default=8, show_default=True, type=click.IntRange(min=1), help="Updates over each of them."
)
@click.option(
    "--evaluate-steps", default=500, show_default=True, type=click.IntRange(min=1), help="Steps of an evaluation."
)
@click.option(
    "--report",
    default="./lucky-report",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the page, its numbers, the pictures and the policy go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def train(
    engine: str,
    num_envs: int,
    updates: int,
    seed: int,
    transport: str,
    compare: str,
    compare_updates: int,
    evaluate_steps: int,
    report: Path,
    as_json: bool,
) -> None:
    """Teach robots to walk, with a small PPO on the CPU.

    Trains over one transport, evaluates without noise against standing still, makes the first updates again over each
    transport to be compared, and writes a page with curves, times and pictures. The defaults take about three minutes
    on two idle cores. Exit code 0 only when the compared curves are equal.
    """
    from lucky_transport_migration.console import watched
    from lucky_transport_migration.training.page import write_page
    from lucky_transport_migration.training.run import TrainingPlan, run_training

    compared = tuple(name for name in compare.split(",") if name)
    command = "lucky-transport " + " ".join(sys.argv[1:])
    plan = TrainingPlan(engine, num_envs, updates, seed, transport, compared, compare_updates, evaluate_steps, command)
    with watched("starting the engine", plan.pieces, silent=as_json) as advance:
        result = run_training(plan, report, advance)
    page = write_page(result, report)
    if as_json:
        click.echo(json.dumps(result | {"pictures": len(result["pictures"])}, indent=2))
    else:
        for sentence in result["verdict"]:
            click.echo(sentence)
        click.echo(f"report: {page}")
    sys.exit(0 if result["equal"] else 1)
