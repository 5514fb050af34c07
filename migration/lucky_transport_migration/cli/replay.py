"""`lucky-transport replay`: what was recorded, made again and compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.cli.tables import echo, show
from lucky_transport_migration.cli.arguments import metadata_option

if TYPE_CHECKING:
    from lucky_transport.call import Metadata
    from lucky_transport_migration.evidence.record import Evidence
    from lucky_transport_migration.recording.result import ReplayResult


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport serve mujoco:quadruped --num-envs 4 --seed 7 --endpoint shm://fresh &\n"
    "  lucky-transport replay run.jsonl.gz shm://fresh --json\n"
    "  lucky-transport replay run.jsonl.gz grpc://127.0.0.1:50071 shm://weather   # also with each other\n"
    "  lucky-transport replay run.jsonl.gz grpc://127.0.0.1:50071 --metadata 'authorization=$TOKEN'"
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("endpoints", nargs=-1, required=True, shell_complete=complete_endpoints, metavar="ENDPOINT [ENDPOINT]")
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write what was seen into this folder, for `lucky-transport gate`; of two endpoints what both answered.",
)
@metadata_option("To calls of a service of your own")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def replay(file: Path, endpoints: tuple[str, ...], evidence: Path | None, metadata: Metadata, as_json: bool) -> None:
    """Make the calls and steps recorded in FILE again, in their order, on the engine or server at ENDPOINT.

    Every answer is compared with the recorded one by the rules of [parity.fields] in lucky_transport.toml. The engine
    should be a fresh one, started with the seed and batch of the recorded one. So methods that change the world are
    compared without making a call twice on one engine. Exit code 0 only when something was compared and all of it is
    equal; otherwise the first difference is shown. A recording that ends in the middle of an entry is INCOMPLETE, with
    exit code 1 also where all before it is equal; one that is damaged anywhere else is an error that names the place.

    With two endpoints, of two fresh engines or servers, every call and step is made at both, and each pair is compared:
    the recording with one, with the other, and both with each other. So what a transport changes is told from what has
    changed since the recording.

    Calls of a service of your own are made at its server, grpc://host:port or shm://name; where all calls are such, no
    engine is needed. What a recording has no value of, since it is a secret, is given with --metadata.

    `lucky-transport parity` compares the same methods on two engines side by side, with requests of its own.
    """
    from lucky_transport_migration.compare.rules import ComparisonRules
    from lucky_transport_migration.evidence.lines import Lines
    from lucky_transport_migration.recording.entries import Recording
    from lucky_transport_migration.recording.replay import ReplayPlace, replay_at
    from lucky_transport_migration.recording.result import ReplayResult

    if len(endpoints) > 2:
        raise click.UsageError(f"{len(endpoints)} endpoints: give one, or two to compare with each other")
    recording, pairs = Recording(file), list(combinations(("recording", *endpoints), 2))
    results = [ReplayResult() for _ in pairs]
    lines = Lines(lambda text: echo(text, err=True))

    def take_last(one: Evidence) -> None:  # so that a call counts once
        results[-1].add(one)
        if evidence is not None:
            lines.write(evidence, [one])

    with ExitStack() as stack:
        stack.enter_context(closing(lines))
        places = [stack.enter_context(closing(ReplayPlace(endpoint, given=metadata))) for endpoint in endpoints]
        takes = [*(result.add for result in results[:-1]), take_last]
        replay_at(recording, places, ComparisonRules.load(), takes)
    for result in results:
        result.torn = recording.torn
    if as_json:
        click.echo(json.dumps({"file": str(file)} | _plain(pairs, results), indent=2, allow_nan=False))
    else:
        _show([" and ".join(pair) for pair in pairs], results)
    sys.exit(0 if all(result.equal for result in results) else 1)


def _plain(pairs: Sequence[tuple[str, str]], results: Sequence[ReplayResult]) -> dict[str, Any]:
    if len(results) == 1:
        return {"endpoint": pairs[0][1]} | results[0].plain()
    rows = [{"of": list(pair)} | result.plain() for pair, result in zip(pairs, results, strict=True)]
    return {"equal": all(result.equal for result in results), "comparisons": rows}


def _show(names: Sequence[str], results: Sequence[ReplayResult]) -> None:
    """Show one table, what none of the results compared, and the rest of each."""
    from lucky_transport_migration.evidence.tally import compared_text

    bad = [f"differ: {name}" for name in names] if len(names) > 1 else ["mismatches"]
    first, *others = (result.not_compared for result in results)
    rows = [
        (name, f"{row.calls:,}", *(f"{one.methods[name].bad:,}" for one in results), f"{row.unseen.total():,}")
        for name, row in results[0].methods.items()
    ]
    show("Replay", ("method", "calls", *bad, "not compared"), rows, empty="nothing was recorded")
    shared = [(what, why) for what, why in first.items() if all(other.get(what) == why for other in others)]
    for what, why in shared:
        echo(f"not compared: {what} ({why})")
    for name, result in zip(names, results, strict=True):
        if others:
            echo(f"{name}:")
        echo(f"compared: {compared_text(result.methods.values()) or 'nothing'}")
        for what, why in result.not_compared.items():
            if (what, why) not in shared:
                echo(f"not compared: {what} ({why})")
        echo(result.sentence)
