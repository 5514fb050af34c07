"""Two answers to one call, compared: the one comparison behind evidence, parity, replay and the page to sign.

    evidence = compare(comparison, Rules.load())
    evidence.verdict, evidence.aspect, evidence.where, evidence.values

What is compared is the table `ASPECTS`, in its order; the first difference counts. Of each of them it says that it was
compared, that it differs, or in `left_out` why it was not compared. Whatever a handler answers is an answer, whatever
its code. What the caller's own side ended is none: a candidate that was not reached, or was late, has failed where the
other answered; where the control was, there is nothing to compare with. Of a call that its caller left early, only the
items that both sent are compared, of a longer stream than is kept also how many there are, and their digest. A stream
that skips what its reader is too slow for has as many items as the other, with those that it skipped. A side that was
left says nothing of how many there are once it has no more than the other. A read that changes the engine's state
differs, whatever it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from lucky_transport.codec.flatbuffers import encode
from lucky_transport.messages.methods import Effect, Flow
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_migration.catalogue.catalogue import known_method
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import Difference, shown
from lucky_transport_migration.compare.items import ItemDigest, ItemPairs
from lucky_transport_migration.compare.rules import METADATA, ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import (
    CONTROL,
    DIFFERENT,
    EQUAL,
    FAILED,
    NOT_COMPARED,
    PROOF,
    Evidence,
    SideResult,
)

#: What is not looked at of a stream that was left, or of which no more was kept.
BEYOND = "items beyond the last that both sent"

#: What a call is made without that a recording masks, by its key.
WITHOUT = "request metadata "
_SECRET = "its value is a secret, which no recording has, so the call is made without"

_ATTEMPTS = "attempts before the last"

_LATE, _CANCELLED = "DEADLINE_EXCEEDED", "CANCELLED"
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")

#: The key of what an engine tells at the end of a stream (`lucky_transport_grpc.metadata`).
_DROPPED = "lucky-dropped"


def compare(
    comparison: Comparison, rules: ComparisonRules, *, kind: str = "live", method: ServiceMethod | None = None
) -> Evidence:
    """Return what a call showed. kind: see `Evidence`; two answers of one transport are always "aa".

    method: for one that neither the table of methods nor this program's modules know.
    """
    primary, shadow = comparison.primary, comparison.shadow
    request = request_hash(comparison.request)
    evidence = Evidence(comparison.method, comparison.decision.stage, _side(primary), kind=kind, request=request)
    if shadow is None:
        return _alone(evidence, comparison)
    is_twin = primary.transport == shadow.transport
    evidence = replace(evidence, shadow=_side(shadow), kind="aa" if is_twin else kind)
    if is_twin or primary.transport == CONTROL:
        control, candidate = primary, shadow
    else:
        control, candidate = shadow, primary
    if _has_failed(candidate, control):
        aspect = "late" if candidate.code == _LATE else "code"
        found = Difference(aspect, "code", _status(primary), _status(shadow))
        return replace(differing_at(found, evidence), verdict=FAILED)
    if why := _incomparable(control, candidate, comparison.options):
        return replace(evidence, verdict=NOT_COMPARED, why=why)
    row = method or known_method(comparison.method)
    return _compared(evidence, comparison, rules, row)


def _side(outcome: CallOutcome) -> SideResult:
    count = len(outcome.items) + outcome.more
    took_us, first_us = round(outcome.took_us, 1), round(outcome.first_us, 1)
    return SideResult(outcome.transport, outcome.code, took_us, count, outcome.is_local, first_us)


def _alone(evidence: Evidence, comparison: Comparison) -> Evidence:
    """Return what a call without a shadow showed: at most that the candidate was not there."""
    primary, why = comparison.primary, comparison.why
    if primary.transport == CONTROL or primary.code != "UNAVAILABLE" or not primary.is_local:
        return replace(evidence, verdict=NOT_COMPARED, why=why or _unasked(comparison))
    values = {primary.transport: shown(_status(primary), "")[0]}
    return replace(evidence, verdict=FAILED, aspect="code", where="code", values=values, why=why)


def _unasked(comparison: Comparison) -> str:
    """Return why there was no shadow, where none was given."""
    row = known_method(comparison.method)
    effect = comparison.decision.effect or (row and row.effect)
    if effect is None:
        return "what it changes is not known, so it is not made twice"
    if effect is Effect.READ:
        return "no shadow was asked"
    return "it changes what there is, and is not made twice"


def _has_failed(candidate: CallOutcome, control: CallOutcome) -> bool:
    """True for a candidate that was not reached, was late or broke where the control was there."""
    is_ended = candidate.is_local and candidate.code != _CANCELLED
    return not control.is_local and (is_ended or candidate.code == "INTERNAL" != control.code)


def _incomparable(control: CallOutcome, candidate: CallOutcome, options: CallOptions) -> str:
    """Return why a difference would show nothing, "" when it would."""
    both_late = control.code == candidate.code == _LATE and candidate.is_local
    if control.is_local and control.code != _CANCELLED and not both_late:
        return f"{control.transport} brought no answer: {_status(control)}"
    refused = [one.code for one in (control, candidate) if one.code in _REFUSED and one.code != options.answered]
    return f"it is made without its secret, and ended with {refused[0]}" if options.without and refused else ""


def _compared(
    evidence: Evidence, comparison: Comparison, rules: ComparisonRules, row: ServiceMethod | None
) -> Evidence:
    primary, shadow = comparison.primary, comparison.shadow
    assert shadow is not None
    is_late = primary.code == shadow.code == _LATE and primary.is_local and shadow.is_local
    is_cut = comparison.ended_early or is_late or _is_open(primary, shadow)
    is_latest = row is not None and row.stream is Flow.LATEST
    skipped = [f"{one.transport} skipped {_dropped(one)} items" for one in (primary, shadow) if _dropped(one)]
    if evidence.stage == PROOF and not _is_bytes(comparison):  # the world stands still, so that items can be matched
        known, skipped = (primary.dropped, shadow.dropped), []
    else:
        known = None if is_latest and skipped else (0, 0)
    kept = min(len(primary.items), len(shadow.items)) if primary.more or shadow.more else None
    sides = (primary.items[:kept], shadow.items[:kept])
    items = ItemPairs(row, *sides, rules, ended_early=is_cut or kept is not None, dropped=known)
    if not items.comparable:
        return replace(evidence, verdict=NOT_COMPARED, why="the stream was left before both had sent an item")
    left_out = {**comparison.unseen, **{f"{WITHOUT}{key}": _SECRET for key in comparison.options.without}}
    if "retryPolicy" in str(dict(comparison.options.channel).get("grpc.service_config", "")):
        left_out[_ATTEMPTS] = "the retry policy of the channel shows the last one alone"
    if is_cut:
        why = "both were late" if is_late else "it was not read to its end"
        left_out |= dict.fromkeys((BEYOND, *(name for name in ASPECTS if name != "items")), why)
    elif not (primary.headers or primary.trailing or shadow.headers or shadow.trailing or _is_bytes(comparison)):
        left_out |= dict.fromkeys(("headers", "trailing metadata"), "a typed call shows none")
    rest = None
    if kept is not None and not is_cut:
        rest, why = _rest_differs(primary, shadow, kept, ItemDigest(row, rules), ItemDigest(row, rules))
        left_out |= {f"items beyond the first {kept}": why} if why else {}
    looks = (look(primary, shadow, items, rules) for name, look in ASPECTS.items() if name not in left_out)
    found = next(filter(None, (*looks, rest)), None)
    if skipped and is_latest and (found is None or is_cut or found.where != "items"):
        why = f"{' and '.join(skipped)} that its reader was too slow for"
        return replace(evidence, verdict=NOT_COMPARED, why=why)
    pairs = (pair for side in (primary, shadow) for pair in (*side.headers, *side.trailing))
    found_rules = (rules.find(f"{METADATA}{key}") for key, _ in pairs)
    metadata = {key: rule.skip for key, rule in found_rules if rule.skip}
    fields = {key: rules.rows[key].skip for key in items.left_out}
    evidence = replace(evidence, verdict=EQUAL, left_out={**fields, **metadata, **left_out})
    return evidence if found is None else differing_at(found, evidence)


def _is_open(*sides: CallOutcome) -> bool:
    """True where a side was left that has no more items than the other, and neither failed."""
    fewest = min(len(one.items) for one in sides)
    left = any(one.is_left and len(one.items) == fewest for one in sides)
    return left and all(one.code == "OK" for one in sides)


def _rest_differs(
    primary: CallOutcome, shadow: CallOutcome, kept: int, mine: ItemDigest, others: ItemDigest
) -> tuple[Difference | None, str]:
    """Return where two streams differ beyond the items that both kept, and why that is not known."""
    counts = [len(one.items) + one.more for one in (primary, shadow)]
    if counts[0] != counts[1]:
        return Difference("count", "items", f"{counts[0]} items", f"{counts[1]} items"), ""
    found: list[str] = []
    for side, digest in ((primary, mine), (shadow, others)):
        if side.more and len(side.items) > kept:
            return None, "the two kept different numbers of items"
        for item in side.items[kept:]:
            digest.add(item)
        found.append(side.rest if side.more else digest.value)
    forms = [one.partition(":")[0] for one in found]
    if mine.why or not all(found) or forms[0] != forms[1]:
        return None, mine.why or "no digest of them was made by these rules"
    return None if found[0] == found[1] else Difference(
        "item", f"items beyond the first {kept}", found[0], found[1]
    ), ""


def _is_bytes(comparison: Comparison) -> bool:
    """True for a call of a program's own stubs, which see metadata; typed calls do not."""
    return isinstance(comparison.request, (bytes, list))


def _codes_differ(primary: CallOutcome, shadow: CallOutcome, *_: object) -> Difference | None:
    return None if primary.code == shadow.code else Difference("code", "code", _status(primary), _status(shadow))


def _details_differ(primary: CallOutcome, shadow: CallOutcome, *_: object) -> Difference | None:
    left, right = primary.details, shadow.details
    return None if left == right else Difference("details", "details", left, right)


def _items_differ(primary: CallOutcome, shadow: CallOutcome, items: ItemPairs, *_: object) -> Difference | None:
    """Return where items differ, or how many there are, those that were skipped with them."""
    found, sides = items.differing(), (primary, shadow)
    is_whole = items.ended_early or len({len(one.items) + _dropped(one) for one in sides}) < 2
    if found is not None or is_whole or not any(map(_dropped, sides)):
        return found
    left, right = (f"{len(one.items)} items, {_dropped(one)} skipped" for one in sides)
    return Difference("count", "items", left, right)


def _dropped(outcome: CallOutcome) -> int:
    """Return how many items a stream skipped; an engine tells generated stubs at the end."""
    told = (str(value) for key, value in outcome.trailing if key == _DROPPED)
    return outcome.dropped + sum(int(one) for one in told if one.isdecimal())


def _metadata_differ(aspect: str, left: Metadata, right: Metadata, rules: ComparisonRules) -> Difference | None:
    """Return the first key that differs; the order of different keys says nothing, that of one key's values does."""
    for key in dict.fromkeys(key for key, _ in (*left, *right)):
        if key == _DROPPED or rules.rule(f"{METADATA}{key}").skip:
            continue
        x, y = ([value for name, value in pairs if name == key] for pairs in (left, right))
        if x != y:
            mine, other = (" ".join(map(str, values)) if values else "absent" for values in (x, y))
            return Difference(aspect, key, mine, other)
    return None


#: What is compared of two answers, in this order.
ASPECTS: Mapping[str, Callable[[CallOutcome, CallOutcome, ItemPairs, ComparisonRules], Difference | None]] = {
    "status": _codes_differ,
    "details": _details_differ,
    "items": _items_differ,
    "headers": lambda left, right, _, rules: _metadata_differ("headers", left.headers, right.headers, rules),
    "trailing metadata": lambda left, right, _, rules: _metadata_differ(
        "trailing", left.trailing, right.trailing, rules
    ),
}


def _status(outcome: CallOutcome) -> str:
    return f"{outcome.code}: {outcome.details}" if outcome.details else outcome.code


def differing_at(found: Difference, evidence: Evidence) -> Evidence:
    """Return evidence of two answers as that of a difference, with values that JSON can carry."""
    assert evidence.shadow is not None
    name, other = evidence.primary.transport, evidence.shadow.transport
    names = (name, other if other != name else f"{other} again")
    values = dict(zip(names, shown(found.left, found.right), strict=True))
    return replace(evidence, verdict=DIFFERENT, aspect=found.aspect, where=found.where, values=values)


def request_hash(request: Any) -> str:
    """Return 16 hex digits that equal requests have in common, "" for one that carries nothing or cannot be known.

    request: a message, bytes, or a list of them where requests are a stream.
    """
    found = blake2b(digest_size=8)
    is_empty = True
    for one in request if isinstance(request, list) else [request]:
        payload = _payload(one)
        is_empty = is_empty and not payload
        found.update(len(payload).to_bytes(8, "little") + payload)
    return "" if is_empty else found.hexdigest()


def _payload(request: Any) -> bytes:
    if request is None or isinstance(request, bytes):
        return request or b""
    try:
        return b"" if request == type(request)() else encode(request)
    except (TypeError, ValueError):  # an engine in this process may be given what no wire could carry
        return b""
