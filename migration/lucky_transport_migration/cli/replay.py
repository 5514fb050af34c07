"""`lucky-transport replay`: what was recorded, made again and compared."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.cli.tables import echo, show

if TYPE_CHECKING:
    from lucky_transport_migration.evidence.record import Evidence
    from lucky_transport_migration.recording.result import ReplayResult

__all__ = ["replay"]


@click.command(
    epilog="\b\nExample:\n"
    "  lucky-transport serve mujoco:quadruped --num-envs 4 --seed 7 --endpoint shm://fresh &\n"
    "  lucky-transport replay run.jsonl.gz shm://fresh --json"
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("endpoint", shell_complete=complete_endpoints)
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write what was seen into this folder, for `lucky-transport gate`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def replay(file: Path, endpoint: str, evidence: Path | None, as_json: bool) -> None:
    """Make the calls and steps recorded in FILE again, in their order, on the engine or server at ENDPOINT.

    Every answer is compared with the recorded one by the rules of [parity.fields] in lucky_transport.toml. The engine
    should be a fresh one, started with the seed and batch of the recorded one. So methods that change the world are
    compared without making a call twice on one engine. Exit code 0 only when something was compared and all of it is
    equal; otherwise the first difference is shown. A recording that ends in the middle of an entry is INCOMPLETE, with
    exit code 1 also where all before it is equal; one that is damaged anywhere else is an error that names the place.

    Calls of a service of your own are made at its server, grpc://host:port or shm://name; where all calls are such, no
    engine is needed.

    `lucky-transport parity` compares the same methods on two engines side by side, with requests of its own.
    """
    from lucky_transport.api import open_transport
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.evidence.lines import Lines
    from lucky_transport_migration.recording.reading import Recording
    from lucky_transport_migration.recording.replay import replay as play
    from lucky_transport_migration.recording.result import ReplayResult
    from lucky_transport_migration.recording.service_replay import ServiceReplay, is_only_foreign

    recording, rules = Recording(file), ComparisonRules.load()
    result = ReplayResult(rules)
    lines = Lines(lambda text: echo(text, err=True))

    def take(one: Evidence) -> None:
        result.add(one)
        if evidence is not None:
            lines.write(evidence, [one])

    with ExitStack() as stack:
        stack.enter_context(closing(lines))
        transport = None if is_only_foreign(recording) else stack.enter_context(open_transport(endpoint))
        services = stack.enter_context(closing(ServiceReplay(endpoint, rules)))
        play(recording, transport, rules, take, services)
    result.torn = recording.torn
    if as_json:
        click.echo(json.dumps({"file": str(file), "endpoint": endpoint} | result.plain(), indent=2, allow_nan=False))
    else:
        _show(result)
    sys.exit(0 if result.equal else 1)


def _show(result: ReplayResult) -> None:
    rows = [(name, f"{row.calls:,}", f"{row.bad:,}", f"{row.unseen.total():,}") for name, row in result.methods.items()]
    show("Replay", ("method", "calls", "mismatches", "not compared"), rows, empty="nothing was recorded")
    for name, row in result.methods.items():
        for why, calls in row.unseen.items():
            echo(f"not compared: {name}, {calls:,} times: {why}")
    echo(f"compared: {', '.join(result.aspects) or 'nothing'}")
    for what, why in result.left_out.items():
        echo(f"not compared: {what} ({why})")
    echo(result.sentence)
