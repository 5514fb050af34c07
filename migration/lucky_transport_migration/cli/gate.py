"""`lucky-transport gate`: may methods move on, by what was seen of them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from lucky_transport_migration.cli.arguments import of_evidence

__all__ = ["gate"]


@click.command(
    epilog="\b\nExamples:\n  lucky-transport gate\n"
    "  lucky-transport gate lucky-evidence --method 'SceneService/*' --since 2026-01-31 --json"
)
@of_evidence("judge")
@click.option("--aa", is_flag=True, help="Judge the A/A run in FOLDER as if it were a migration; it should pass.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def gate(folder: Path | None, method: str, since: str, aa: bool, as_json: bool) -> None:
    """Judge by the evidence in FOLDER whether methods may move to their next stage.

    FOLDER is what `[stages] evidence` of lucky_transport.toml names. Every method that is on its way needs enough
    compared calls, an upper bound of its mismatch rate below the limit, and a candidate that is not slower than the
    limit or the noise of an A/A run allow; what was seen before its last move counts no more, and a demotion holds it
    back. The limits are `[gate]` of lucky_transport.toml. Exit code 0 only when all may move on, 1 otherwise; the
    reasons say what is missing.
    """
    from lucky_transport.messages.names import matches
    from lucky_transport_migration.gate.gate_verdict import judge, twins_as_candidates
    from lucky_transport_migration.gate.limits import Limits
    from lucky_transport_migration.gate.looks import Looks
    from lucky_transport_migration.gate.tables import show_verdict
    from lucky_transport_migration.gate.unproven import moved_without_evidence
    from lucky_transport_migration.jsonl import Damage
    from lucky_transport_migration.stages.effective_stages import EffectiveStages
    from lucky_transport_migration.stages.evidence_window import recent_evidence
    from lucky_transport_migration.stages.journal import Journal
    from lucky_transport_migration.stages.stage_plan import StagePlan

    limits = Limits.load()
    plan = StagePlan.load(environ={})
    folder = folder or plan.evidence
    damage = Damage()
    compared: dict[str, bool] = {}
    recent = recent_evidence(folder, limits.aa_days, damage, compared)
    seen = (one for one in recent if matches(one.method, method) and one.at >= since)
    if aa:
        verdict = judge(twins_as_candidates(seen), limits)
    else:
        journal = Journal(folder)
        demotions = journal.demotions()
        standing = EffectiveStages(plan, demotions)
        held = {name: one for name, one in demotions.items() if matches(name, method)}
        verdict = judge(seen, limits, held, standing=standing, looks=Looks(folder))
        if not verdict.methods and not any(matches(name, method) for name in compared):
            plan.catalogue.find(method)  # of a name that is not known it says which are nearest
        moved = [name for name in {*compared, *(one.method for one in journal.entries())} if matches(name, method)]
        verdict = replace(verdict, unproven=moved_without_evidence(standing, moved, compared))
    if as_json:
        click.echo(json.dumps(verdict.plain() | {"damaged": damage.plain()}, indent=2, allow_nan=False))
    else:
        show_verdict(verdict, damage)
    sys.exit(0 if verdict.promote else 1)
