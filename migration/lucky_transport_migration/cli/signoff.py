"""`lucky-transport signoff`: the page to sign."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from lucky_transport.cli.tables import echo, show
from lucky_transport_migration.cli.arguments import of_evidence


@click.command(
    epilog="\b\nExamples:\n  lucky-transport signoff\n"
    "  lucky-transport signoff lucky-evidence --method 'SceneService/*' --report ./to-sign --json"
)
@of_evidence("sign")
@click.option(
    "--report",
    default="./lucky-report",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where signoff.html, signoff.md and signoff.json go.",
)
@click.option("--look", is_flag=True, help="Count this as a look of the gate: a decision is made of it.")
@click.option("--json", "as_json", is_flag=True, help="Print the page as JSON.")
def signoff(folder: Path | None, method: str, since: str, report: Path, look: bool, as_json: bool) -> None:
    """Write the page to sign: per method what was compared, what differed, how long it takes, and the way back.

    It is made of the evidence in FOLDER, which is what `[stages] evidence` of lucky_transport.toml names, of the
    stages and of what the gate says. Exit code 0 only when each method that is on its way may move on or is complete,
    and nothing of it differed since it was last sent back; 1 otherwise, also when nothing was seen.
    """
    from lucky_transport_migration.signoff.collect import collect
    from lucky_transport_migration.signoff.page import glance, lead, write_pages

    result = collect(method, folder, since, look=look)
    page = write_pages(result, report)
    if as_json:
        click.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        for table in glance(result):
            show("To sign", (table.title, *table.heads), table.rows)
        for one in result["methods"]:
            for reason in one["reasons"]:
                echo(f"- {one['method']}: {reason}")
        first, *others = lead(result)
        for sentence in (*others, f"{result['word']}: {first}"):
            echo(sentence)
        echo(f"page to sign: {page}")
    sys.exit(0 if result["word"] == "READY" else 1)
