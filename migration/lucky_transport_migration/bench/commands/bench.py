"""The suite of commands, ready to run."""

from __future__ import annotations

from collections.abc import Sequence

from lucky_transport_migration.bench.call_suite.results import Prepared
from lucky_transport_migration.bench.commands.cells import COMMANDS, CommandPlan, plan_of_commands, setups_of
from lucky_transport_migration.bench.commands.codec_cost import protobuf_class
from lucky_transport_migration.bench.commands.rounds import measure_commands

__all__ = ["prepare"]


def prepare(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> Prepared:
    """Return the suite for a command line. A quick one has one round of short loops and small pictures.

    Running it raises what starting the engines raises, and RemoteProtocolError when an answer or item was lost,
    doubled or torn.
    """
    plan = plan_of_commands(paths, waits, rounds=rounds, quick=quick)
    return Prepared(
        COMMANDS, plan, list(setups_of(plan)), lambda setup: measure_commands(setup, plan), notes=_notes(plan)
    )


def _notes(plan: CommandPlan) -> list[str]:
    notes = [
        f"pictures are {plan.options['width']}x{plan.options['height']} and prepared beforehand: an engine that "
        "renders them takes longer than any transport"
    ]
    if protobuf_class() is None:
        notes.append("protobuf is not installed, so the codec has nothing to be compared with")
    return notes
