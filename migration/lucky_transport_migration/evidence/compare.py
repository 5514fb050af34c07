"""Both answers to one call, compared: evidence.

    evidence = compare(comparison, Rules.load())
    evidence.verdict, evidence.aspect, evidence.where, evidence.values

Status, details, items, headers and trailing metadata are compared in this order; the first difference counts. A
candidate that is unreachable, breaks or is late where gRPC answered has failed. Where gRPC brought no answer there is
nothing to compare with. Of a call that its caller left early, only the items that both sent are compared.
"""

from __future__ import annotations

from dataclasses import replace

from lucky_transport.messages.methods import BY_NAME, Effect, Flow
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.rule_keys import METADATA
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import shown
from lucky_transport_migration.evidence.record import (
    CONTROL,
    DIFFERENT,
    EQUAL,
    FAILED,
    NOT_COMPARED,
    Evidence,
    SideResult,
)
from lucky_transport_migration.evidence.request_hash import request_hash
from lucky_transport_migration.routing_policy import CallOutcome, Comparison

__all__ = ["compare"]

_LATE = "DEADLINE_EXCEEDED"

#: Codes of a transport that brought no answer of the engine's, and, for a candidate, of one that broke.
_NO_ANSWER = frozenset({"UNAVAILABLE", _LATE})
_FAILURES = _NO_ANSWER | {"INTERNAL"}


def compare(comparison: Comparison, rules: ComparisonRules, *, kind: str = "live") -> Evidence:
    """Return what a call showed. kind: see `Evidence`; two answers of one transport are always "aa"."""
    primary, shadow = comparison.primary, comparison.shadow
    request = request_hash(comparison.request)
    evidence = Evidence(comparison.method, comparison.decision.stage, _side(primary), kind=kind, request=request)
    if shadow is None:
        return _alone(evidence, primary, comparison.why)
    is_twin = primary.transport == shadow.transport
    evidence = replace(evidence, shadow=_side(shadow), kind="aa" if is_twin else kind)
    if is_twin or primary.transport == CONTROL:
        control, candidate = primary, shadow
    else:
        control, candidate = shadow, primary
    if candidate.code in _FAILURES and control.code not in _NO_ANSWER | {candidate.code}:
        aspect = "late" if candidate.code == _LATE else "code"
        found = Difference(aspect, "code", _status(primary), _status(shadow))
        return replace(evidence, verdict=FAILED, **_named(found, primary, shadow))
    if why := _incomparable(comparison, control, candidate):
        return replace(evidence, verdict=NOT_COMPARED, why=why)
    return _compared(evidence, comparison, primary, shadow, rules)


def _side(outcome: CallOutcome) -> SideResult:
    return SideResult(outcome.transport, outcome.code, round(outcome.took_us, 1), len(outcome.items))


def _alone(evidence: Evidence, primary: CallOutcome, why: str) -> Evidence:
    """Return what a call without a shadow showed: at most that the candidate was not there."""
    if primary.transport == CONTROL or primary.code != "UNAVAILABLE":
        return replace(evidence, verdict=NOT_COMPARED, why=why or _unasked(evidence.method))
    values = {primary.transport: shown(_status(primary), "")[0]}
    return replace(evidence, verdict=FAILED, aspect="code", where="code", values=values, why=why)


def _unasked(method: str) -> str:
    """Return why there was no shadow, where none was given."""
    row = BY_NAME.get(method)
    if row is None:
        return "what it changes is not known, so it is not made twice"
    if row.effect is Effect.READ:
        return "no shadow was asked"
    return "it changes what there is, and is not made twice"


def _incomparable(comparison: Comparison, control: CallOutcome, candidate: CallOutcome) -> str:
    """Return why a difference would show nothing, "" when it would."""
    if control.code in _NO_ANSWER and not control.code == candidate.code == _LATE:
        return f"{control.transport} brought no answer: {_status(control)}"
    row = BY_NAME.get(comparison.method)
    if row is not None and row.stream is Flow.LATEST and (control.dropped or candidate.dropped):
        skipped = [f"{one.transport} skipped {one.dropped} items" for one in (control, candidate) if one.dropped]
        return f"{' and '.join(skipped)} that its reader was too slow for"
    return ""


def _compared(
    evidence: Evidence, comparison: Comparison, primary: CallOutcome, shadow: CallOutcome, rules: ComparisonRules
) -> Evidence:
    is_cut = comparison.ended_early or primary.code == shadow.code == _LATE
    row = BY_NAME.get(comparison.method)
    dropped = 0 if evidence.kind == "replay" else None
    items = ItemPairs(row, primary.items, shadow.items, rules, ended_early=is_cut, dropped=dropped)
    if not items.comparable:
        return replace(evidence, verdict=NOT_COMPARED, why="the stream was left before both had sent an item")
    found = None if is_cut else _status_differs(primary, shadow)
    found = found or items.differing()
    if found is None and not is_cut:
        found = _metadata_differ("headers", primary.headers, shadow.headers, rules)
        found = found or _metadata_differ("trailing", primary.trailing, shadow.trailing, rules)
    evidence = replace(evidence, verdict=EQUAL, left_out=items.left_out)
    return evidence if found is None else replace(evidence, verdict=DIFFERENT, **_named(found, primary, shadow))


def _status_differs(primary: CallOutcome, shadow: CallOutcome) -> Difference | None:
    if primary.code != shadow.code:
        return Difference("code", "code", _status(primary), _status(shadow))
    if primary.details != shadow.details:
        return Difference("details", "details", primary.details, shadow.details)
    if primary.dropped != shadow.dropped:
        return Difference("count", "dropped", primary.dropped, shadow.dropped)
    return None


def _metadata_differ(aspect: str, left: Metadata, right: Metadata, rules: ComparisonRules) -> Difference | None:
    """Return the first key that differs; the order of different keys says nothing, that of one key's values does."""
    for key in dict.fromkeys(key for key, _ in (*left, *right)):
        if rules.rule(f"{METADATA}{key}").skip:
            continue
        x, y = ([value for name, value in pairs if name == key] for pairs in (left, right))
        if x != y:
            mine, other = (" ".join(map(str, values)) if values else "absent" for values in (x, y))
            return Difference(aspect, key, mine, other)
    return None


def _status(outcome: CallOutcome) -> str:
    return f"{outcome.code}: {outcome.details}" if outcome.details else outcome.code


def _named(found: Difference, primary: CallOutcome, shadow: CallOutcome) -> dict[str, object]:
    """Return a difference as fields of evidence, with values that JSON can carry."""
    other = shadow.transport if shadow.transport != primary.transport else f"{shadow.transport} again"
    values = dict(zip((primary.transport, other), shown(found.left, found.right), strict=True))
    return {"aspect": found.aspect, "where": found.where, "values": values}
