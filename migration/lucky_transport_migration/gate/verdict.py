"""Whether methods may move on: the evidence of each, held against the limits.

    verdict = judge(read_folder("lucky-evidence"), Limits.load())
    verdict.promote, verdict.reasons

A method moves on when enough of its calls were compared, and the upper bounds of its mismatch rate and of its latency
ratio are within the limits; each reason why not names the number and the limit. Nothing is judged by its absence:
without a compared call nothing moves on. A method that stays on one transport is not judged: from grpc to shadow
nothing is at stake, and after complete there is nowhere to go. An A/A run ("aa": both sides are the same transport) is
no evidence for the candidate; it tells what noise is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import MethodVerdict, judge_method
from lucky_transport_migration.stages.journal import Demotion

__all__ = ["GateVerdict", "judge"]

_NO_EVIDENCE = (
    "no evidence: no call of a method that is on its way was seen; set methods to shadow and run the program, or use "
    "`lucky-transport parity --evidence` or `lucky-transport replay --evidence`"
)


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """promote: whether all methods may move on. reasons: why not, each led by the method's name."""

    promote: bool
    reasons: list[str]
    methods: Mapping[str, MethodVerdict] = field(default_factory=dict[str, MethodVerdict])

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        methods = {name: row.plain() for name, row in self.methods.items()}
        return {"promote": self.promote, "reasons": self.reasons, "methods": methods}


def judge(evidence: Iterable[Evidence], limits: Limits, demotions: Mapping[str, Demotion] | None = None) -> GateVerdict:
    """Return the verdict on every moving method that `evidence` has calls of. Reads it once, to its end.

    demotions: those in force, by method: one that is in its cool-down, or was not seen since, is held back too.
    """
    summaries: dict[str, EvidenceSummary] = {}
    for one in evidence:
        summaries.setdefault(one.method, EvidenceSummary()).add(one)
    moving = {name: summary for name, summary in summaries.items() if summary.moving}
    held = {name: one for name, one in (demotions or {}).items() if one.cooling_s() or name not in moving}
    moving |= {name: summaries.get(name, EvidenceSummary()) for name in held if name not in moving}
    rows = {name: judge_method(moving[name], limits, among=len(moving)) for name in sorted(moving)}
    rows |= {name: replace(rows[name], reasons=[_held_back(one), *rows[name].reasons]) for name, one in held.items()}
    reasons = [f"{name}: {reason}" for name, row in rows.items() for reason in row.reasons]
    return GateVerdict(bool(rows) and not reasons, reasons if rows else [_NO_EVIDENCE], rows)


def _held_back(demotion: Demotion) -> str:
    left_s = demotion.cooling_s()
    return f"demoted to {demotion.to} ({demotion.why}){f', in cool-down for {left_s:.0f} s more' if left_s else ''}"
