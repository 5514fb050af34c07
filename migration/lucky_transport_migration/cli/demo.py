"""`lucky-transport demo`: one batch over gRPC and shared memory, side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.tables import echo


@click.command(epilog="\b\nExample:\n  lucky-transport demo --num-envs 16 --steps 500 --report ./lucky-report")
@click.option(
    "--engine",
    shell_complete=complete_engines,
    default="mujoco",
    show_default=True,
    help="Engine to step, e.g. mujoco or toy.",
)
@click.option("--num-envs", default=16, show_default=True, type=click.IntRange(min=1), help="Envs stepped together.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(min=1), help="Measured steps.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of engines and policy.")
@click.option(
    "--report",
    default="./lucky-report",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the HTML page and its JSON go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def demo(
    engine: str,
    num_envs: int,
    steps: int,
    seed: int,
    report: Path,
    as_json: bool,
) -> None:
    """Step the same MuJoCo batch over legacy gRPC and over shared memory.

    Starts one engine process per transport with the same seed, compares every value of the first 50 steps bit for bit,
    measures as many as you ask for and writes a report. Takes under a minute. Exit code 0 only when all are equal.
    """
    from lucky_transport_migration.bench.demo import pieces, run_demo
    from lucky_transport_migration.bench.report import show_bench, without_histograms, write_bench
    from lucky_transport_migration.console import watched

    command = "lucky-transport " + " ".join(sys.argv[1:])
    with watched("starting engines", pieces(), silent=as_json) as advance:
        result = run_demo(engine, num_envs, steps, seed, command, advance)
    page = write_bench(result, report, "demo")
    if as_json:
        click.echo(json.dumps(without_histograms(result), indent=2, allow_nan=False))
    else:
        show_bench(result)
        echo(f"report: {page}")
    sys.exit(0 if result["parity"]["equal"] else 1)
