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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lucky_transport_migration.evidence.record import CONTROL, Evidence
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.gate.method import MethodVerdict, difference_first, judge_method, uncompared
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.stage import Stage

NO_EVIDENCE = (
    "no evidence: no call of a method that is on its way was seen; set methods to shadow and run the program, or use "
    "`lucky-transport parity --evidence DIRECTORY` or `lucky-transport replay --evidence DIRECTORY`"
)


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """promote: whether all methods may move on. reasons: why not, each led by the method's name."""

    promote: bool
    reasons: list[str]
    methods: Mapping[str, MethodVerdict] = field(default_factory=dict[str, MethodVerdict])

    def refusal(self, name: str, standing: EffectiveStages) -> str:
        """Return why a method is not promoted from where it stands, "" where it is; the stepping path is with Step."""
        name, at = STEP if name in STEPPING_PATH else name, standing.placement(name)
        if at.following == at:
            return f"is at {at}, the last stage"
        if standing.cooling_s(name):
            return standing.demoted_text(name)
        if at.stage is Stage.GRPC:
            return ""
        return "; ".join(self.reasons_of(name, standing))

    def reasons_of(self, name: str, standing: EffectiveStages) -> list[str]:
        """Return what the gate holds against a method, also where nothing of it was seen."""
        row = self.methods.get(name)
        return row.reasons if row else [uncompared(EvidenceSummary(name, standing))]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        methods = {name: row.plain() for name, row in self.methods.items()}
        return {"promote": self.promote, "reasons": self.reasons, "methods": methods}


def judge(
    evidence: Iterable[Evidence],
    limits: Limits,
    *,
    standing: EffectiveStages | None = None,
    looks: Looks | None = None,
    asked: Callable[[str], bool] = lambda name: True,
    is_look: bool = True,
) -> GateVerdict:
    """Return the verdict on every moving method that `evidence` has calls of. Reads it once, to its end.

    standing: on which rung methods are, which asks for live calls there; one that was demoted and is in its cool-down,
    or was not seen since, is held back too. looks: where looks are counted, this one if is_look; without them it is the
    first. asked: which methods; the bounds hold for all that are moving, so the verdict on one is the same whatever
    else is asked for. Raises ConfigError where a look cannot be counted.
    """
    summaries: dict[str, EvidenceSummary] = {}
    for one in evidence:
        if one.method not in summaries:
            summaries[one.method] = EvidenceSummary(one.method, standing)
        summaries[one.method].add(one)
    moving = {name: one for name, one in summaries.items() if one.moving}
    held: dict[str, str] = {}
    if standing is not None:
        names = {*moving, *standing.demotions, *([STEP] if standing.demotion(STEP) else [])}
        held = {name: standing.demoted_text(name) for name in names if name not in moving or standing.cooling_s(name)}
    moving |= {name: summaries.get(name, EvidenceSummary(name, standing)) for name in held if name not in moving}

    def row(name: str, look: int) -> MethodVerdict:
        return judge_method(moving[name], limits, among=len(moving), look=look)

    names = sorted(filter(asked, moving))
    seen = {name: (moving[name].calls, len(moving[name].aa)) for name in names if name not in held}
    numbers = {} if looks is None else looks.take(seen, lambda name, look: is_look and row(name, look).is_whole)
    rows = {name: row(name, numbers.get(name, 1)) for name in names}
    for name in held.keys() & rows.keys():
        is_first = standing is not None and standing.cooling_s(name) > 0 and not moving[name].compared
        reasons = [] if is_first else rows[name].reasons  # while it cools down no advice can be followed
        rows[name] = replace(rows[name], reasons=difference_first(moving[name], [held[name], *reasons]))
    reasons = [f"{name}: {reason}" for name, one in rows.items() for reason in one.reasons]
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
