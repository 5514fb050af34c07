"""The outcome of a proof of commands, for a person: the verdict, a line per method, every method's first difference."""

from __future__ import annotations

from rich.console import Console

from lucky_transport_migration.commands_parity.answers import ASPECTS
from lucky_transport_migration.commands_parity.outcome import CommandsParity
from lucky_transport_migration.console import new_table, print_text
from lucky_transport_migration.paths import label

__all__ = ["show_commands_parity"]


def show_commands_parity(outcome: CommandsParity) -> None:
    """Print the outcome."""
    console = Console()
    print_text(console, f"between {', '.join(label(name) for name in outcome.between)}")
    missing = set(outcome.not_offered)
    table = new_table("method", "calls", "equal", "ok", "refused", "raised")
    for name, row in outcome.methods.items():
        if name in missing:
            continue
        numbers = (row.calls, row.equal, row.accepted, row.refused, row.raised)
        style = "" if row.equal == row.calls else "bold red"
        table.add_row(name.rpartition(".")[2], *(f"{one:,}" for one in numbers), style=style)
    console.print(table)
    for row in outcome.methods.values():
        if row.first_difference is not None:
            print_text(console, f"differs: {row.first_difference.sentence()}", "red")
    if outcome.offer:
        print_text(console, outcome.offer, "dim")
    never_accepted = [name.rpartition(".")[2] for name in outcome.never_accepted if name not in missing]
    if never_accepted:
        print_text(console, f"never accepted: {', '.join(never_accepted)}", "dim")
    print_text(console, f"compared: {', '.join(ASPECTS)}", "dim")
    for what, why in outcome.not_compared.items():
        print_text(console, f"not compared: {what} ({why})", "dim")
    print_text(console, outcome.sentence, "bold green" if outcome.equal else "bold red")
