"""The verdict on one method: what was counted, and each reason why it may not move on.

A reason names the number, the limit and what to do. The confidence is that of all methods judged together: each method,
and each of its percentiles, has its share of the error (Bonferroni). So the more is judged, the more each method has to
show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED
from lucky_transport_migration.gate.binomial import needed_calls, upper_bound
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.latency import Latency, compare_latency, needed_samples, noise_limit
from lucky_transport_migration.gate.limits import Limits

__all__ = ["MethodVerdict", "judge_method"]

_PERCENTILES = ("p50", "p99")


@dataclass(frozen=True, slots=True)
class MethodVerdict:
    """What a method's evidence comes to; `reasons` is empty when it may move on.

    calls: seen, compared: of those, with both answers. mismatches: answered differently, failures: the candidate did
    not answer. mismatch_bound: the rate that the true one is not above. not_compared: reason -> calls. aa_calls: pairs
    of an A/A run, from which the noise floor comes.
    """

    reasons: list[str]
    calls: int
    compared: int
    mismatches: int
    failures: int
    mismatch_bound: float
    not_compared: dict[str, int]
    left_out: list[str]
    aspects: dict[str, int]
    first: str
    aa_calls: int
    latency: list[Latency] = field(default_factory=list[Latency])

    @property
    def promote(self) -> bool:
        """True when nothing speaks against it."""
        return not self.reasons

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        plain: dict[str, Any] = {"promote": self.promote} | {name: getattr(self, name) for name in self.__slots__}
        plain["not_compared"] = [{"why": why, "calls": calls} for why, calls in self.not_compared.items()]
        plain["latency"] = [one.plain() for one in self.latency]
        return plain


def judge_method(tally: EvidenceSummary, limits: Limits, *, among: int = 1) -> MethodVerdict:
    """Return the verdict on one method; among: how many methods are judged together."""
    bad = tally.verdicts[DIFFERENT] + tally.verdicts[FAILED]
    error = (1 - limits.confidence) / among
    bound = upper_bound(bad, tally.compared, 1 - error)
    doubts = list(_doubts(tally, bad, bound, limits, error))
    latency, missing = _latency(tally, limits, error)
    if tally.compared:  # else there is nothing to be timed either
        doubts += [*missing, *(one.sentence for one in latency if one.holds_back)]
    return MethodVerdict(
        reasons=doubts,
        calls=tally.calls,
        compared=tally.compared,
        mismatches=tally.verdicts[DIFFERENT],
        failures=tally.verdicts[FAILED],
        mismatch_bound=round(bound, 9),
        not_compared=dict(tally.unseen),
        left_out=list(tally.left_out),
        aspects=dict(tally.aspects),
        first=tally.first.sentence if tally.first else "",
        aa_calls=len(tally.twins[0]),
        latency=latency,
    )


def _latency(tally: EvidenceSummary, limits: Limits, error: float) -> tuple[list[Latency], list[str]]:
    """Return what can be said of durations, and what is missing for the rest.

    The tail is judged where callers wait for both sides: a shadow's is that of its thread.
    """
    found: list[Latency] = []
    missing: list[str] = []
    names = _PERCENTILES if tally.judges_tail() else _PERCENTILES[:1]
    for name in names:
        control, candidate = tally.waited() if name == "p99" else tally.durations()
        needed = needed_samples(name, error / len(names))
        if min(len(control), len(candidate)) < needed:
            missing.append(_too_few(name, len(control), len(candidate), needed))
            continue
        limit = noise_limit(name, limits.slower_limit, *tally.twins)
        found.append(compare_latency(name, control, candidate, limit, error / len(names)))
    return found, missing


def _too_few(name: str, control: int, candidate: int, needed: int) -> str:
    sides = (("control", control), ("candidate", candidate))
    short = " and ".join(f"{needed - calls:,} of the {side}" for side, calls in sides if calls < needed)
    where = "that a caller waited for (canary, parity)" if name == "p99" else "(shadow, canary, parity; no replay)"
    return f"its {name} is not known: {short} are missing of {plural(needed, 'timed call')} each {where}"


def _doubts(tally: EvidenceSummary, bad: int, bound: float, limits: Limits, error: float) -> Iterator[str]:
    """Yield why the answers do not suffice."""
    if not tally.calls:
        yield "no call of it was seen since"
        return
    if not tally.compared:
        why, calls = tally.unseen.most_common(1)[0]
        yield (
            f"of {plural(tally.calls, 'call')} none was compared ({calls:,}: {why}); what changes the world is "
            "compared on two engines: `lucky-transport parity`, or `record` and `replay`"
        )
        return
    if tally.compared < limits.calls:
        yield f"{plural(tally.compared, 'call')} compared, {limits.calls:,} asked for (calls)"
    if bound <= limits.mismatch_limit or (not bad and tally.compared < limits.calls):
        return
    needed = needed_calls(bad, limits.mismatch_limit, 1 - error)
    yield (
        f"of {plural(tally.compared, 'compared call')} {_counted(tally)}: a rate of up to {_percent(bound)} is open, "
        f"the limit is {_percent(limits.mismatch_limit)}; {plural(needed - tally.compared, 'more call')} without "
        f"another would do{_first(tally)}"
    )


def _counted(tally: EvidenceSummary) -> str:
    kinds = ", ".join(f"{aspect} {calls:,}" for aspect, calls in tally.aspects.most_common())
    return f"{tally.verdicts[DIFFERENT]:,} differed and {tally.verdicts[FAILED]:,} failed{kinds and f' ({kinds})'}"


def _first(tally: EvidenceSummary) -> str:
    if tally.first is None:
        return ""
    noise = "; it differs in the A/A run too, so give that field a rule in [parity.fields]"
    return f"; the first: {tally.first.sentence}{noise if tally.noise_in(tally.first.where) else ''}"


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"
