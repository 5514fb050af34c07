"""The verdict on one method: what was counted, and each reason why it may not move on.

A reason names the number, the limit and what to do. The confidence is that of all methods judged together, however
often: each look, method and percentile has its share of the error (Bonferroni; see looks.py). So the more is judged,
and the more often, the more each method has to show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.messages.method import Effect
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED
from lucky_transport_migration.gate.bounds import Blocks, error_of_look, needed_trials, upper_bound
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.latency import ENOUGH, ENOUGH_PAIRS, ENOUGH_TAILS, Latency
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.stages.stage import Stage

__all__ = ["MethodVerdict", "judge_method"]


@dataclass(frozen=True, slots=True)
class MethodVerdict:
    """What a method's evidence comes to; `reasons` is empty when it may move on.

    calls: seen, compared: of those, with both answers, distinct: of those, requests that differ (the trials).
    mismatches: calls answered differently, failures: the candidate did not answer. mismatch_bound: the rate of trials
    that the true one is not above. not_compared: reason -> calls. aa_calls: pairs of an A/A run, from which the noise
    comes, the last one of the moment aa_at. look: the number of this one, is_whole: whether enough was seen that a
    promotion could come of it. error: the probability with which each of its bounds may be wrong. unjudged: what it
    says nothing of.
    """

    reasons: list[str]
    calls: int
    compared: int
    distinct: int
    mismatches: int
    failures: int
    mismatch_bound: float
    not_compared: dict[str, int]
    left_out: list[str]
    aspects: dict[str, int]
    first: str
    aa_calls: int
    aa_at: str
    look: int
    is_whole: bool
    error: float
    unjudged: list[str]
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


def judge_method(summary: EvidenceSummary, limits: Limits, *, among: int = 1, look: int = 1) -> MethodVerdict:
    """Return the verdict on one method; among: how many methods are judged together, look: the number of this look."""
    error = error_of_look((1 - limits.confidence) / among, look)
    hits = summary.bad_trials
    bad = int(hits.sum())
    loss = Blocks.of(hits).loss(error) if bad else 1.0
    bound = upper_bound(bad / loss, summary.trials / loss, 1 - error)
    doubts = list(_doubts(summary, bound, limits, error, bad, loss))
    latency, missing = _latency(summary, limits, error)
    missing += _unproven(summary, limits)
    if summary.compared:  # else there is nothing to be timed either
        doubts += [*missing, *(one.sentence for one in latency if one.holds_back)]
    if doubts and look > 1:
        doubts[-1] += f" (look {look:,}: each one makes the bounds wider)"
    has_trials = summary.trials >= limits.calls and upper_bound(0, summary.trials, 1 - error) <= limits.mismatch_limit
    return MethodVerdict(
        reasons=doubts,
        calls=summary.calls,
        compared=summary.compared,
        distinct=summary.trials,
        mismatches=summary.verdicts[DIFFERENT],
        failures=summary.verdicts[FAILED],
        mismatch_bound=round(bound, 9),
        not_compared=dict(summary.unseen),
        left_out=list(dict.fromkeys(what for what, _ in summary.left_out)),
        aspects=dict(summary.aspects),
        first=summary.first.sentence if summary.first else "",
        aa_calls=len(summary.aa),
        aa_at=summary.aa_at,
        look=look,
        is_whole=has_trials and not missing,
        error=round(error, 9),
        unjudged=list(_unjudged(summary)),
        latency=latency,
    )


def _latency(summary: EvidenceSummary, limits: Limits, error: float) -> tuple[list[Latency], list[str]]:
    """Return what can be said of durations, and what is missing for the rest."""
    found: list[Latency] = []
    missing: list[str] = []
    aa = summary.aa
    of_each = error / (2 if summary.judges_tail() else 1)
    share = of_each / (2 if len(aa) >= ENOUGH else 1)  # the noise may err as well
    pairs, tails, timed = summary.pairs, summary.tails, ", ".join(summary.timed)
    if len(pairs) >= ENOUGH_PAIRS:
        found.append(pairs.latency(*_limit(aa.noise(share), summary, limits), share))
    else:
        needed = f"its p50 is not known: it needs {ENOUGH_PAIRS} pairs of timed calls ({timed}; no replay)"
        missing.append(f"{needed}, and has {len(pairs)}")
    if summary.judges_tail() and len(tails) >= ENOUGH_TAILS:
        found.append(tails.latency(limits.tail_limit, of_each))
    elif summary.judges_tail():
        needed = (
            f"its p99 is not known: it needs {ENOUGH_TAILS} timed calls of each side that a caller waited for ({timed})"
        )
        missing.append(
            f"{needed}, and has {len(tails.control):,} of the control, {len(tails.candidate):,} of the candidate"
        )
    return found, missing


def _limit(noise: float, summary: EvidenceSummary, limits: Limits) -> tuple[float, str]:
    """Return the limit in force and what raised it: what an A/A run shows at least differs where nothing does."""
    if noise <= limits.slower_limit:
        return limits.slower_limit, ""
    return noise, f" (noise of {plural(len(summary.aa), 'A/A pair')}, the last of {summary.aa_at[:10]})"


def _doubts(
    summary: EvidenceSummary, bound: float, limits: Limits, error: float, bad: int, loss: float
) -> Iterator[str]:
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
    if nothing := summary.unaccepted(summary.method):
        yield f"NOTHING COMPARED: {nothing}"
    trials = summary.trials
    is_repeated = trials < summary.compared
    seen = f"{plural(summary.compared, 'compared call')}{f' of {_distinct(trials)}' if is_repeated else ''}"
    remedy = "; `lucky-transport parity --evidence` makes others" if is_repeated else ""
    if trials < limits.calls:
        counted = f"{plural(summary.compared, 'call')}{f' of {_distinct(trials)}' if is_repeated else ''}"
        yield f"{counted} compared, {limits.calls:,} asked for (calls){remedy}"
    if bound <= limits.mismatch_limit or (not bad and trials < limits.calls):
        return
    needed = math.ceil(loss * needed_trials(bad / loss, limits.mismatch_limit, 1 - error))
    bursts = f"; mismatches come in bursts: {trials:,} are worth {trials / loss:,.0f} independent" if loss > 2 else ""
    yield (
        f"of {seen} {_counted(summary)}: a rate of up to {_percent(bound)} is open, the limit is "
        f"{_percent(limits.mismatch_limit)}{bursts}; {plural(needed - trials, 'more call')} without another would do"
        f"{remedy}{_first(summary)}"
    )


def _unproven(summary: EvidenceSummary, limits: Limits) -> list[str]:
    """Return what is missing of the rung that a method is on: what other rungs and other runs showed is not of it."""
    is_read, rung = summary.effect is Effect.READ, summary.rung
    if rung is None or (rung.stage is Stage.SHADOW and not is_read):  # where it is made once and gRPC answers
        return []
    changed = "something" if summary.effect is Effect.IDEMPOTENT else f"the {summary.effect.value}"
    why = f" (what changes {changed} is made once: it is compared on two engines)"
    seen, what = (summary.live, "compared") if is_read else (summary.by_candidate, f"answered by shared memory{why}")
    if seen >= (needed := min(limits.calls, ENOUGH)):
        return []
    return [f"at {rung} {seen:,} live calls of {needed:,} were {what}; run the program on this rung"]


def _unjudged(summary: EvidenceSummary) -> Iterator[str]:
    """Yield what the verdict says nothing of, and why."""
    if summary.compared and not summary.judges_tail():
        where = f"at {summary.rung} " if summary.rung else ""
        yield f"its p99: {where}no caller waits for both transports"
    for why, calls in summary.unseen.most_common():
        yield f"the answers to {plural(calls, 'call')}: {why}"


def _distinct(trials: int) -> str:
    return plural(trials, "distinct request")


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
