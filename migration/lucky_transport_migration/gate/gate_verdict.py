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

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport_migration.evidence.record import CONTROL, EXCHANGE, NOT_COMPARED, Evidence
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.gate.method import MethodVerdict, judge_method
from lucky_transport_migration.stages.effective_stages import STEP, EffectiveStages
from lucky_transport_migration.stages.journal import Demotion
from lucky_transport_migration.stages.stage import Placement

__all__ = ["NO_EVIDENCE", "GateVerdict", "as_exchange", "judge", "twins_as_candidates"]

NO_EVIDENCE = (
    "no evidence: no call of a method that is on its way was seen; set methods to shadow and run the program, or use "
    "`lucky-transport parity --evidence` or `lucky-transport replay --evidence`"
)
_TYPED_STEP = (
    "a typed call of Step is none of the exchanges that move with it; `lucky-transport parity --suite step --evidence` "
    "and `replay --evidence` compare those"
)


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """promote: whether all methods may move on. reasons: why not, each led by the method's name.

    unproven: methods that were moved without evidence, with their stage; they hold nothing back.
    """

    promote: bool
    reasons: list[str]
    methods: Mapping[str, MethodVerdict] = field(default_factory=dict[str, MethodVerdict])
    unproven: Mapping[str, Placement] = field(default_factory=dict[str, Placement])

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        methods = {name: row.plain() for name, row in self.methods.items()}
        unproven = {name: str(at) for name, at in self.unproven.items()}
        return {"promote": self.promote, "reasons": self.reasons, "methods": methods, "unproven": unproven}


def judge(
    evidence: Iterable[Evidence],
    limits: Limits,
    demotions: Mapping[str, Demotion] | None = None,
    *,
    standing: EffectiveStages | None = None,
    looks: Looks | None = None,
) -> GateVerdict:
    """Return the verdict on every moving method that `evidence` has calls of. Reads it once, to its end.

    demotions: those in force, by method: one that is in its cool-down, or was not seen since, is held back too.
    standing: on which rung methods are, which asks for live calls there. looks: where looks are counted; without them
    this one is the first. Raises ConfigError where a look cannot be counted.
    """
    summaries: dict[str, EvidenceSummary] = {}
    for one in evidence:
        if one.method not in summaries:
            summaries[one.method] = EvidenceSummary(one.method, standing)
        summaries[one.method].add(as_exchange(one) if one.method == STEP else one)
    moving = {name: one for name, one in summaries.items() if one.moving or _TYPED_STEP in one.unseen}
    held = {name: one for name, one in (demotions or {}).items() if one.cooling_s() or name not in moving}
    moving |= {name: summaries.get(name, EvidenceSummary()) for name in held if name not in moving}

    def row(name: str, look: int) -> MethodVerdict:
        return judge_method(moving[name], limits, among=len(moving), look=look)

    seen = {name: (one.calls, len(one.aa)) for name, one in moving.items() if name not in held}
    numbers = {} if looks is None else looks.take(seen, lambda name, look: row(name, look).is_whole)
    rows = {name: row(name, numbers.get(name, 1)) for name in sorted(moving)}
    rows |= {name: replace(rows[name], reasons=[_held_back(one), *rows[name].reasons]) for name, one in held.items()}
    reasons = [f"{name}: {reason}" for name, row in rows.items() for reason in row.reasons]
    return GateVerdict(bool(rows) and not reasons, reasons if rows else [NO_EVIDENCE], rows)


def twins_as_candidates(evidence: Iterable[Evidence]) -> Iterator[Evidence]:
    """Yield the A/A pairs of `evidence`; every other one of a method becomes a live call with a candidate.

    The others say what noise is, so what the gate says of all is what it says where nothing differs.
    """
    seen: Counter[str] = Counter()
    for one in evidence:
        if one.kind == "aa" and one.shadow is not None:
            seen[one.method] += 1
            if seen[one.method] % 2:
                sides = replace(one.primary, transport=CONTROL), replace(one.shadow, transport="candidate")
                one = replace(one, kind="live", stage="shadow", primary=sides[0], shadow=sides[1])
            yield one


def as_exchange(one: Evidence) -> Evidence:
    """Return evidence of Step as one of the stepping path, whose exchange is other code than a typed call of Step."""
    if one.kind == "live" or one.stage == EXCHANGE or one.verdict == NOT_COMPARED:
        return one
    return replace(one, verdict=NOT_COMPARED, why=_TYPED_STEP, left_out={})


def _held_back(demotion: Demotion) -> str:
    left_s = demotion.cooling_s()
    return f"demoted to {demotion.to} ({demotion.why}){f', in cool-down for {left_s:.0f} s more' if left_s else ''}"
