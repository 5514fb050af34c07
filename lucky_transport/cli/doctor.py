"""`lucky-transport doctor`: checks this machine and prints what is wrong and how to mend it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from lucky_transport.cli.tables import echo, show


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport doctor\n"
    "  lucky-transport doctor --fix\n"
    "  lucky-transport doctor --json | jq '.checks[] | select(.verdict != \"ok\")'",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--fix", is_flag=True, help="Remove what killed processes left first.")
def doctor(as_json: bool, fix: bool) -> None:
    """Check what the transports need; print what is wrong and how to mend it.

    Exit code 0 when nothing failed; warnings name a loss, not a failure.
    """
    from lucky_transport.diagnosis import shared_memory
    from lucky_transport.diagnosis.check import CheckStatus, Roots
    from lucky_transport.diagnosis.table import examine, healthy

    roots = Roots()
    removed = shared_memory.remove_stale_segments(roots) if fix else []
    rows = examine(roots)
    ok = healthy(rows)
    if as_json:
        plain = {"ok": ok, "removed": [str(one.path) for one in removed], "checks": [asdict(row) for row in rows]}
        click.echo(json.dumps(plain, indent=2))
    else:
        for one in removed:
            echo(f"removed {one.path} ({one.size_bytes} bytes)")
        remedies = [(row.name, row.verdict, row.remedy) for row in rows if row.remedy]
        show("What to do", ("check", "verdict", "remedy"), remedies, empty="nothing", wraps=True)
        rows = sorted(rows, key=lambda row: (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.OK).index(row.verdict))
        show("Checks", ("check", "verdict", "seen"), [(row.name, row.verdict, row.seen) for row in rows], wraps=True)
    if not ok:
        raise click.exceptions.Exit(1)
