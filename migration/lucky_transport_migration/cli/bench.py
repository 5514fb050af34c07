"""`lucky-transport bench`: transports measured against each other in one run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.tables import echo
from lucky_transport_migration.cli.arguments import NAMES, NUMBERS, choices

if TYPE_CHECKING:
    from lucky_transport_migration.bench.run import PreparedSuite

_ENGINE = "toy:idle"
#: As `--suite` names those with an engine of their own -> what prepares each, imported when it is asked for.
_SUITES = {
    "commands": "lucky_transport_migration.bench.suites.commands:prepare",
    "kits": "lucky_transport_migration.bench.suites.kits:prepare",
    "stubs": "lucky_transport_migration.bench.suites.stubs:prepare",
    "training": "lucky_transport_migration.bench.suites.training:prepare",
}


@click.command(
    epilog="\b\nExamples:\n  lucky-transport bench --between grpc,shm --num-envs 1,64,4096 --report ./bench-report"
    "\n  lucky-transport bench mujoco:quadruped --num-envs 16"
    "\n  lucky-transport bench --suite commands --check"
    "\n  lucky-transport bench --suite stubs --report ./bench-report"
)
@click.argument("engine", default=_ENGINE, shell_complete=complete_engines)
@click.option(
    "--suite",
    default="step",
    show_default=True,
    type=click.Choice(["step", *_SUITES]),
    help="Exchanges and VectorEnv.step; typed calls, streams and images; engines of other languages; existing gRPC "
    "code; training loops.",
)
@click.option(
    "--between", "transports", default="grpc,shm", show_default=True, type=NAMES, help="Transports to measure."
)
@click.option("--num-envs", type=NUMBERS, help="Batch sizes.  [default: 1,64,4096; with --quick 1,64]")
@click.option(
    "--rates",
    type=NUMBERS,
    help="Steps a second, of VectorEnv.step with 16 envs.  [default: 50,200,1000; with --quick 200]",
)
@click.option(
    "--wait",
    "waits",
    type=choices("adaptive", "block", "spin"),
    help="Waiting strategies of shm.  [default: all three; with --quick adaptive]",
)
@click.option(
    "--rounds",
    default=6,
    show_default=True,
    type=click.IntRange(min=1),
    help="Fresh process pairs each; fewer than 6 give no verdict.",
)
@click.option("--quick", is_flag=True, help="One round of short loops in about a minute: a first look.")
@click.option(
    "--check", is_flag=True, help="Compare with the project's targets, PASS or FAIL each; exit code 1 when one fails."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a page, JSON and Markdown there.",
)
def bench(
    engine: str,
    suite: str,
    transports: tuple[str, ...],
    num_envs: tuple[int, ...] | None,
    rates: tuple[int, ...] | None,
    waits: tuple[str, ...] | None,
    rounds: int,
    quick: bool,
    check: bool,
    as_json: bool,
    report: Path | None,
) -> None:
    """Measure transports against each other, with ENGINE (toy:idle, which does no work) at the other end.

    Each figure is a median over rounds of fresh process pairs; ratios come from one run and, from six rounds on, carry
    an interval and a verdict. Ctrl-C and SIGTERM keep what was measured. Any other engine is measured through VectorEnv
    only. --suite commands, kits, stubs and training have an engine of their own, and take neither ENGINE nor --num-envs
    and --rates. docs/how-to/measure.md says what each of them measures.
    """
    from lucky_transport.registry import load
    from lucky_transport_migration.bench.suite import check_targets
    from lucky_transport_migration.bench.suites import steps

    prepared: PreparedSuite
    if suite == "step":
        plan = steps.plan_of(engine, transports, num_envs, waits, rounds=rounds, quick=quick, rates=rates)
        prepared = steps.prepare(plan)
    elif engine != _ENGINE or num_envs or rates:
        raise click.UsageError(f"--suite {suite} has an engine of its own: leave out ENGINE, --num-envs and --rates")
    else:
        prepare = load(_SUITES[suite], owner=f"bench --suite {suite}", extra="grpc")
        prepared = prepare(transports, waits, rounds=rounds, quick=quick)
    result = _measured(prepared, silent=as_json)
    if check:
        result["targets"] = check_targets(result, prepared.suite.targets)
    _output(result, report, as_json=as_json)


def _measured(prepared: PreparedSuite, *, silent: bool) -> dict[str, Any]:
    """Run the suite, with a progress bar unless it is to be silent."""
    from lucky_transport_migration.console import terminated_as_by_ctrl_c, watched

    with watched("measuring", prepared.pieces, silent=silent) as advance, terminated_as_by_ctrl_c():
        return prepared.run("lucky-transport " + " ".join(sys.argv[1:]), advance)


def _output(result: dict[str, Any], report: Path | None, *, as_json: bool) -> None:
    """Write the report and print the result; exit with 1 where the run was stopped or a target is missed."""
    from lucky_transport_migration.bench import report as reports

    if report is not None:
        page = reports.write_bench(result, report)
        echo(f"report: {page}", err=True)
    if as_json:
        click.echo(json.dumps(reports.without_histograms(result), indent=2, allow_nan=False))
    else:
        reports.show_bench(result)
    if "stopped" in result or any(one["word"] == "FAIL" for one in result.get("targets", ())):
        sys.exit(1)
