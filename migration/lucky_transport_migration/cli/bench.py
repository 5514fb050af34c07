"""`lucky-transport bench`: transports measured against each other in one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lucky_transport_migration.cli.arguments import NAMES, NUMBERS, choices

__all__ = ["bench"]

_ENGINE = "toy:idle"


@click.command(
    epilog="\b\nExamples:\n  lucky-transport bench --transports grpc,shm --num-envs 1,64,4096 --report ./bench-report"
    "\n  lucky-transport bench --suite commands --check"
)
@click.argument("engine", default=_ENGINE)
@click.option(
    "--suite",
    default="step",
    show_default=True,
    type=click.Choice(["step", "commands"]),
    help="Exchanges and VectorEnv.step, or typed calls, streams and images.",
)
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
    suite: str,
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

    --suite commands has an engine of its own and measures small typed calls, streams of 1 kB messages, 1280x720
    pictures, a training loop beside streams, and the codec. Of the options above it takes --transports, --wait,
    --rounds and --quick.
    """
    from lucky_transport_migration import tables
    from lucky_transport_migration.progress import watched
    from lucky_transport_migration.report import write_bench

    if suite == "commands":
        if engine != _ENGINE or num_envs is not None:
            raise click.UsageError("--suite commands has an engine of its own: leave out ENGINE and --num-envs")
        chosen = _commands(transports, waits, rounds, quick)
    else:
        sizes = {"obs_size": obs_size, "act_size": act_size}
        chosen = _steps(engine, transports, num_envs, waits, sizes, rounds, quick)
    if not as_json:
        click.echo(f"about {chosen.minutes:.1f} min: {chosen.pieces} pieces in {chosen.rounds} rounds", err=True)
    with watched("measuring", chosen.pieces, silent=as_json) as advance:
        result = chosen.run("lucky-transport " + " ".join(sys.argv[1:]), advance)
    if check:
        result["targets"] = chosen.check(result)
    if report is not None:
        page = write_bench(result, report)
        click.echo(f"report: {page}", err=True)
    if as_json:
        click.echo(json.dumps(tables.without_histograms(result), indent=2, allow_nan=False))
    else:
        chosen.show(result)


@dataclass(frozen=True, slots=True)
class _Suite:
    """A suite with its plan: how long it takes, in how many pieces, and what to do with its result."""

    minutes: float
    pieces: int
    rounds: int
    run: Callable[[str, Callable[..., None]], dict[str, Any]]
    check: Callable[[dict[str, Any]], list[dict[str, Any]]]
    show: Callable[[dict[str, Any]], None]


def _steps(
    engine: str,
    transports: tuple[str, ...],
    num_envs: tuple[int, ...] | None,
    waits: tuple[str, ...] | None,
    sizes: dict[str, Any],
    rounds: int,
    quick: bool,
) -> _Suite:
    from lucky_transport_migration import bench as runner
    from lucky_transport_migration import tables, targets
    from lucky_transport_migration.cells import plan_of

    options = sizes if engine.startswith("toy") else {}
    plan = plan_of(engine, transports, num_envs, waits, options, rounds=rounds, quick=quick)
    return _Suite(
        runner.estimate_s(plan) / 60,
        runner.pieces(plan),
        plan.rounds,
        lambda command, advance: runner.run_bench(plan, command, advance),
        lambda result: [one.plain() for one in targets.check(result)],
        tables.show_bench,
    )


def _commands(transports: tuple[str, ...], waits: tuple[str, ...] | None, rounds: int, quick: bool) -> _Suite:
    from lucky_transport_migration import targets
    from lucky_transport_migration.commands import bench as runner
    from lucky_transport_migration.commands.cells import plan_of_commands
    from lucky_transport_migration.commands.tables import show_commands
    from lucky_transport_migration.commands.targets import COMMAND_TARGETS

    plan = plan_of_commands(transports, waits, rounds=rounds, quick=quick)
    return _Suite(
        runner.estimate_s(plan) / 60,
        runner.pieces(plan),
        plan.rounds,
        lambda command, advance: runner.run_commands(plan, command, advance),
        lambda result: [one.plain() for one in targets.check(result, COMMAND_TARGETS)],
        show_commands,
    )
