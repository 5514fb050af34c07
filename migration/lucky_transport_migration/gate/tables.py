"""The verdict for a person: one row per method, then what does not count, each reason, and the verdict in one line."""

from __future__ import annotations

from lucky_transport.cli.tables import echo, show
from lucky_transport.errors import plural
from lucky_transport_migration.gate.gate_verdict import GateVerdict
from lucky_transport_migration.gate.method import MethodVerdict
from lucky_transport_migration.jsonl import Damage
from lucky_transport_migration.units import duration_text

__all__ = ["show_verdict"]

_COLUMNS = ("method", "calls", "compared", "mismatches", "failures", "rate at most", "p50 grpc", "p50 shm", "may move")


def show_verdict(verdict: GateVerdict, damage: Damage) -> None:
    """Print a verdict. damage: of the evidence that was read for it."""
    show("Gate", _COLUMNS, [_row(name, row) for name, row in verdict.methods.items()], empty="no evidence")
    for name, row in verdict.methods.items():
        if row.left_out:
            echo(f"not compared in {name}: {', '.join(row.left_out)}")
        for what in row.unjudged:
            echo(f"not judged of {name}: {what}")
    for name, at in verdict.unproven.items():
        echo(f"moved without evidence: {name} is at {at}, and no call of it was ever compared")
    if damage.lines:
        echo(damage.sentence)
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
    middle = next((one for one in row.latency if one.percentile == "p50"), None)
    durations = ("", "") if middle is None else (duration_text(middle.control_us), duration_text(middle.candidate_us))
    repeats = f" ({row.distinct:,} distinct)" if row.distinct < row.compared else ""
    counts = (f"{row.calls:,}", f"{row.compared:,}{repeats}", f"{row.mismatches:,}", f"{row.failures:,}")
    return (name, *counts, f"{row.mismatch_bound * 100:.3g} %", *durations, "yes" if row.promote else "no")
