"""What `lucky-transport parity` prints of an outcome."""

from __future__ import annotations

from lucky_transport.cli.tables import echo, show
from lucky_transport_migration.parity.call_parity import CommandsParity, WholeParity
from lucky_transport_migration.parity.step_parity import Parity
from lucky_transport_migration.paths import label


def show_parity(outcome: Parity | CommandsParity | WholeParity) -> None:
    """Print a proof's outcome: what was compared, by which rules, what differs, what was not compared, the verdict.

    Of a whole one both parts, one that differs last, and the verdict on both in the last line.
    """
    if isinstance(outcome, WholeParity):
        parts = [one for one in (outcome.steps, outcome.calls) if one is not None]
        for part in sorted(parts, key=lambda part: not part.equal):
            show_parity(part)
        if len(parts) > 1 and outcome.equal:  # else the sentence of the part that differs is the last line
            echo("EQUAL: steps and calls.")
        return
    heads, rows = outcome.table
    show(f"between {', '.join(label(name) for name in outcome.between)}", heads, rows, numbers=True)
    if isinstance(outcome, CommandsParity):
        for one in outcome.differences:
            echo(f"differs: {one.sentence()}", fg="red")
        if outcome.offer:
            echo(outcome.offer, dim=True)
    echo(f"compared: {outcome.compared_text}", dim=True)
    if declared := outcome.rules.declared:
        echo(f"rules of [parity.fields]: {'; '.join(declared)}", dim=True)
    for what, why in outcome.not_compared.items():
        echo(f"not compared: {what} ({why})", dim=True)
    for line in outcome.sentence.splitlines():
        echo(line, bold=True, fg="green" if outcome.equal else "red")
