"""`lucky-transport bench`: transports measured against each other in one run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from lucky_transport_migration.cli.arguments import NAMES, NUMBERS, choices

__all__ = ["bench"]


@click.command(
    epilog="\b\nExample:\n  lucky-transport bench --transports grpc,shm --num-envs 1,64,4096 --report ./bench-report"
)
@click.argument("engine", default="toy:idle")
@click.option("--transports", default="grpc,shm", show_default=True, type=NAMES, help="Transports to measure.")
@click.option("--num-envs", type=NUMBERS, help="Batch sizes.  [default: 1,64,4096; with --quick 1,64]")
@click.option("--obs-size", default=100, show_default=True, type=click.IntRange(min=1), help="Floats observed per env.")
@click.option("--act-size", default=12, show_default=True, type=click.IntRange(min=1), help="Floats acted per env.")
@click.option(
    "--wait",
    "waits",
    type=choices("adaptive", "block", "spin"),
    help="Waiting strategies of shm.  [default: all three; with --quick adaptive]",
)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1), help="Fresh process pairs each.")
@click.option("--quick", is_flag=True, help="One round of short loops in about 15 s: a first look.")
@click.option("--check", is_flag=True, help="Compare with the project's targets, PASS or FAIL each.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), help="Write an HTML page and JSON there.")
def bench(
    engine: str,
    transports: tuple[str, ...],
    num_envs: tuple[int, ...] | None,
    obs_size: int,
    act_size: int,
    waits: tuple[str, ...] | None,
    rounds: int,
    quick: bool,
    check: bool,
    as_json: bool,
    report: Path | None,
) -> None:
    """Measure transports against each other, with ENGINE (toy:idle, which does no work) at the other end.

    `grpc` stands for both the legacy per-agent Steps and the batch service. Each figure is a median over rounds of
    fresh process pairs in the order A B B A; ratios come from one run and carry an interval. Any other engine is
    measured through VectorEnv only, since its own work is in every step.
    """
    from lucky_transport_migration import bench as runner
    from lucky_transport_migration import tables, targets
    from lucky_transport_migration.cells import plan_of
    from lucky_transport_migration.progress import watched
    from lucky_transport_migration.report import write_bench

    options: dict[str, Any] = {"obs_size": obs_size, "act_size": act_size} if engine.startswith("toy") else {}
    plan = plan_of(engine, transports, num_envs, waits, options, rounds=rounds, quick=quick)
    minutes = runner.estimate_s(plan) / 60
    if not as_json:
        click.echo(f"about {minutes:.1f} min: {runner.pieces(plan)} pieces in {plan.rounds} rounds", err=True)
    command = "lucky-transport " + " ".join(sys.argv[1:])
    with watched("measuring", runner.pieces(plan), silent=as_json) as advance:
        result = runner.run_bench(plan, command, advance)
    if check:
        result["targets"] = [one.plain() for one in targets.check(result)]
    if report is not None:
        page = write_bench(result, report)
        click.echo(f"report: {page}", err=True)
    if as_json:
        click.echo(json.dumps(tables.without_histograms(result), indent=2, allow_nan=False))
    else:
        tables.show_bench(result)
