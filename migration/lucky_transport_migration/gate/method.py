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


def judge_method(summary: EvidenceSummary, limits: Limits, *, among: int = 1) -> MethodVerdict:
    """Return the verdict on one method; among: how many methods are judged together."""
    bad = summary.verdicts[DIFFERENT] + summary.verdicts[FAILED]
    error = (1 - limits.confidence) / among
    bound = upper_bound(bad, summary.compared, 1 - error)
    doubts = list(_doubts(summary, bad, bound, limits, error))
    latency, missing = _latency(summary, limits, error)
    if summary.compared:  # else there is nothing to be timed either
        doubts += [*missing, *(one.sentence for one in latency if one.holds_back)]
    return MethodVerdict(
        reasons=doubts,
        calls=summary.calls,
        compared=summary.compared,
        mismatches=summary.verdicts[DIFFERENT],
        failures=summary.verdicts[FAILED],
        mismatch_bound=round(bound, 9),
        not_compared=dict(summary.unseen),
        left_out=list(summary.left_out),
        aspects=dict(summary.aspects),
        first=summary.first.sentence if summary.first else "",
        aa_calls=len(summary.twins[0]),
        latency=latency,
    )


def _latency(summary: EvidenceSummary, limits: Limits, error: float) -> tuple[list[Latency], list[str]]:
    """Return what can be said of durations, and what is missing for the rest.

    The tail is judged where callers wait for both sides: a shadow's is that of its thread.
    """
    found: list[Latency] = []
    missing: list[str] = []
    names = _PERCENTILES if summary.judges_tail() else _PERCENTILES[:1]
    for name in names:
        control, candidate = summary.waited() if name == "p99" else summary.durations()
        needed = needed_samples(name, error / len(names))
        if min(len(control), len(candidate)) < needed:
            missing.append(_too_few(name, len(control), len(candidate), needed))
            continue
        limit = noise_limit(name, limits.slower_limit, *summary.twins)
        found.append(compare_latency(name, control, candidate, limit, error / len(names)))
    return found, missing


def _too_few(name: str, control: int, candidate: int, needed: int) -> str:
    sides = (("control", control), ("candidate", candidate))
    short = " and ".join(f"{needed - calls:,} of the {side}" for side, calls in sides if calls < needed)
    where = "that a caller waited for (canary, parity)" if name == "p99" else "(shadow, canary, parity; no replay)"
    return f"its {name} is not known: {short} are missing of {plural(needed, 'timed call')} each {where}"


def _doubts(summary: EvidenceSummary, bad: int, bound: float, limits: Limits, error: float) -> Iterator[str]:
    """Yield why the answers do not suffice."""
    if not summary.calls:
        yield "no call of it was seen since"
        return
    if not summary.compared:
        why, calls = summary.unseen.most_common(1)[0]
        yield (
            f"of {plural(summary.calls, 'call')} none was compared ({calls:,}: {why}); what changes the world is "
            "compared on two engines: `lucky-transport parity`, or `record` and `replay`"
        )
        return
    if summary.compared < limits.calls:
        yield f"{plural(summary.compared, 'call')} compared, {limits.calls:,} asked for (calls)"
    if bound <= limits.mismatch_limit or (not bad and summary.compared < limits.calls):
        return
    needed = needed_calls(bad, limits.mismatch_limit, 1 - error)
    yield (
        f"of {plural(summary.compared, 'compared call')} {_counted(summary)}: a rate of up to {_percent(bound)} "
        f"is open, the limit is {_percent(limits.mismatch_limit)}; {plural(needed - summary.compared, 'more call')} "
        f"without another would do{_first(summary)}"
    )


def _counted(summary: EvidenceSummary) -> str:
    kinds = ", ".join(f"{aspect} {calls:,}" for aspect, calls in summary.aspects.most_common())
    return f"{summary.verdicts[DIFFERENT]:,} differed and {summary.verdicts[FAILED]:,} failed{kinds and f' ({kinds})'}"


def _first(summary: EvidenceSummary) -> str:
    if summary.first is None:
        return ""
    noise = "; it differs in the A/A run too, so give that field a rule in [parity.fields]"
    return f"; the first: {summary.first.sentence}{noise if summary.noise_in(summary.first.where) else ''}"


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"
