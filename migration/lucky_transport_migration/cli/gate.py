"""`lucky-transport gate`: may methods move on, by what was seen of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import plural
from lucky_transport_migration.cli.arguments import of_evidence
from lucky_transport_migration.units import duration_text

if TYPE_CHECKING:
    from lucky_transport_migration.gate.gate_verdict import GateVerdict
    from lucky_transport_migration.gate.method import MethodVerdict

_COLUMNS = ("method", "calls", "compared", "mismatches", "failures", "rate at most", "p50 grpc", "p50 shm", "may move")


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
    from lucky_transport.messages.method import matches
    from lucky_transport_migration.gate.gate_verdict import judge, twins_as_candidates
    from lucky_transport_migration.gate.limits import Limits
    from lucky_transport_migration.gate.looks import Looks
    from lucky_transport_migration.gate.moves import unproven, unproven_texts
    from lucky_transport_migration.jsonl import Damage
    from lucky_transport_migration.stages.effective_stages import EffectiveStages
    from lucky_transport_migration.stages.evidence_window import recent_evidence
    from lucky_transport_migration.stages.journal import Journal
    from lucky_transport_migration.stages.stage import Placement
    from lucky_transport_migration.stages.stage_plan import StagePlan

    limits = Limits.load()
    plan = StagePlan.load(environ={})
    folder = folder or plan.evidence
    damage, compared, bare = Damage(), dict[str, bool](), dict[str, Placement]()
    recent = recent_evidence(folder, limits.aa_days, damage, compared)
    seen = (one for one in recent if one.at >= since)
    if aa:
        verdict = judge(twins_as_candidates(one for one in seen if matches(one.method, method)), limits)
    else:
        journal = Journal(folder)
        standing = EffectiveStages(plan, journal.demotions())
        verdict = judge(seen, limits, standing=standing, looks=Looks(folder), asked=partial(matches, pattern=method))
        names = [name for name in {*compared, *(one.method for one in journal.entries())} if matches(name, method)]
        if not verdict.methods and not names:
            plan.catalogue.find(method)  # of a name that is not known it says which are nearest
        bare = unproven({name: standing.placement(name) for name in names if not compared.get(name)})
    if as_json:
        rest = {"unproven": {name: str(at) for name, at in bare.items()}, "damaged": damage.plain()}
        click.echo(json.dumps(verdict.plain() | rest, indent=2, allow_nan=False))
    else:
        _show(verdict, [*unproven_texts(bare), *filter(None, [damage.sentence])])
    sys.exit(0 if verdict.promote else 1)


def _show(verdict: GateVerdict, beside: Sequence[str]) -> None:
    """Print a row per method, then what does not count, what is `beside`, each reason, and the verdict in one line."""
    show("Gate", _COLUMNS, [_row(name, row) for name, row in verdict.methods.items()], empty="no evidence")
    for name, row in verdict.methods.items():
        if left_out := dict.fromkeys(what for what, _ in row.summary.left_out):
            echo(f"not compared in {name}: {', '.join(left_out)}")
        for what in row.unjudged:
            echo(f"not judged of {name}: {what}")
    for text in beside:
        echo(text)
    for reason in verdict.reasons:
        echo(f"- {reason}")
    echo(_sentence(verdict))


def _sentence(verdict: GateVerdict) -> str:
    """Return the verdict in one line."""
    rows = verdict.methods.values()
    if verdict.promote:
        return f"PROMOTE: {plural(len(rows), 'method')} may move on."
    if not rows:
        return "HOLD: there is no evidence."
    held = sum(not row.promote for row in rows)
    return f"HOLD: {held:,} of {plural(len(rows), 'method')} may not move on yet; the reasons are above."


def _row(name: str, row: MethodVerdict) -> tuple[str, ...]:
    from lucky_transport_migration.evidence.record import DIFFERENT, FAILED

    middle = next((one for one in row.latency if one.percentile == "p50"), None)
    durations = ("", "") if middle is None else (duration_text(middle.control_us), duration_text(middle.candidate_us))
    seen = row.summary
    repeats = f" ({seen.trials:,} distinct)" if seen.trials < seen.compared else ""
    bad = (f"{seen.verdicts[verdict]:,}" for verdict in (DIFFERENT, FAILED))
    counts = (f"{seen.calls:,}", f"{seen.compared:,}{repeats}", *bad)
    return (name, *counts, f"{row.mismatch_bound * 100:.3g} %", *durations, "yes" if row.promote else "no")
