"""The verdict on one method: what was counted, and each reason why it may not move on.

A reason names the number, the limit and what to do. The confidence is that of all methods judged together, however
often: each look, method and percentile has its share of the error (Bonferroni; see looks.py). So the more is judged,
and the more often, the more each method has to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.messages.method import Effect, short_name
from lucky_transport_migration.bounds import Blocks, error_of_look, needed_trials, upper_bound
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.catalogue.effects import UNSAID
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, PROOF
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.latency import ENOUGH, ENOUGH_PAIRS, ENOUGH_TAILS, FIRST_ITEM, Latency
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.stages.stage import Stage

_ON_TWO = "compare on two engines, by `lucky-transport parity` (your own by `--server`), or by `record` and `replay`"


@dataclass(frozen=True, slots=True)
class MethodVerdict:
    """What a method's evidence, the `summary`, comes to; `reasons` is empty when it may move on.

    mismatch_bound: the rate of trials that the true one is not above. look: the number of this one, is_whole: whether
    enough was seen that a promotion could come of it. error: the probability with which each of its bounds may be
    wrong.
    """

    summary: EvidenceSummary
    reasons: list[str]
    mismatch_bound: float
    look: int
    is_whole: bool
    error: float
    latency: list[Latency] = field(default_factory=list[Latency])

    @property
    def promote(self) -> bool:
        """True when nothing speaks against it."""
        return not self.reasons

    @property
    def unjudged(self) -> list[str]:
        """What the verdict says nothing of, and why."""
        seen = self.summary
        where = f"at {seen.rung} " if seen.rung else ""
        tail = [f"its p99: {where}no caller waits for both transports"] * (seen.compared > 0 and not seen.judges_tail())
        return tail + [f"the answers to {plural(calls, 'call')}: {why}" for why, calls in seen.unseen.most_common()]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        names = ("promote", "reasons", "mismatch_bound", "look", "is_whole", "error", "unjudged")
        own = {name: getattr(self, name) for name in names}
        left_out = list(dict.fromkeys(what for what, _ in self.summary.left_out))
        return self.summary.plain() | own | {"left_out": left_out, "latency": [one.plain() for one in self.latency]}


def judge_method(summary: EvidenceSummary, limits: Limits, *, among: int = 1, look: int = 1) -> MethodVerdict:
    """Return the verdict on one method; among: how many methods are judged together, look: the number of this look."""
    error = error_of_look((1 - limits.confidence) / among, look)
    hits = summary.bad_trials
    loss = Blocks.of(hits).loss(error) if hits.any() else 1.0
    bound = upper_bound(hits.sum() / loss, summary.trials / loss, 1 - error)
    latency, missing = _latency(summary, limits, error)
    missing += _unproven(summary, limits)
    if missing:
        missing[-1] += _larger_share(summary)
    if summary.compared:
        slow = (one.sentence for one in latency if one.holds_back)
        rate = _open_rate(summary, limits, error, bound, loss)
        doubts = [*_counts(summary, limits, error), *([rate] if rate and not summary.bad else []), *missing, *slow]
        if summary.bad and (rate or doubts):
            doubts = ["; ".join(filter(None, [different(summary), rate])), *doubts]
    else:  # then there is nothing to be timed either
        doubts = [uncompared(summary)]
    if doubts and look > 1:
        doubts[-1] += f" (look {look:,}: each one makes the bounds wider)"
    has_trials = summary.trials >= limits.calls and upper_bound(0, summary.trials, 1 - error) <= limits.mismatch_limit
    return MethodVerdict(summary, doubts, round(bound, 9), look, has_trials and not missing, round(error, 9), latency)


def _latency(summary: EvidenceSummary, limits: Limits, error: float) -> tuple[list[Latency], list[str]]:
    """Return what can be said of durations, and what is missing for the rest."""
    found: list[Latency] = []
    missing: list[str] = []
    pairs, tails, aa, timed = summary.pairs, summary.tails, summary.aa, ", ".join(summary.timed)
    of_each = error / (1 + summary.judges_tail() + (len(summary.firsts) >= ENOUGH_PAIRS))
    share = of_each / (2 if len(aa) >= ENOUGH else 1)  # the noise may err as well
    if len(pairs) >= ENOUGH_PAIRS:
        limit, why = limits.slower_limit, ""
        if (noise := aa.noise(share)) > limit:  # what an A/A run shows at least differs where nothing does
            limit, why = noise, f" (noise of {plural(len(aa), 'A/A pair')}, the last of {summary.aa_at[:10]})"
        found.append(pairs.latency(limit, why, share))
        if len(summary.firsts) >= ENOUGH_PAIRS:
            found.append(summary.firsts.latency(limit, why, share, FIRST_ITEM))
    else:
        needed = f"it needs {ENOUGH_PAIRS} pairs of timed calls ({timed}, no replay), and has {len(pairs)}"
        missing.append(f"its p50 is not known: {needed}")
    if summary.judges_tail() and len(tails) >= ENOUGH_TAILS:
        found.append(tails.latency(limits.tail_limit, of_each))
    elif summary.judges_tail():
        sides = f"{len(tails.control):,} over gRPC and {len(tails.candidate):,} over shared memory"
        needed = f"it needs {ENOUGH_TAILS} timed calls of each side that a caller waited for ({timed}), and has {sides}"
        missing.append(f"its p99 is not known: {needed}")
    return found, missing


def uncompared(summary: EvidenceSummary) -> str:
    """Return why nothing was compared, and which evidence the method can have."""
    seen = "no call of it was compared since its last move"
    if summary.calls:
        why, calls = summary.unseen.most_common(1)[0]
        seen = f"of {plural(summary.calls, 'call')} none was compared ({calls:,}: {why})"
    remedy = "run the program on this rung"
    if not summary.is_read:
        remedy = _ON_TWO + "; if it only reads, say so in its .proto" * (summary.known.reason == UNSAID)
    elif summary.stage and summary.stage.stage is Stage.GRPC:
        remedy = f"at grpc no shadow is asked: `lucky-transport stage promote {short_name(summary.method)}`"
    return f"{seen}; {remedy}"


def _counts(summary: EvidenceSummary, limits: Limits, error: float) -> Iterator[str]:
    """Yield why the compared calls are too few, or say nothing."""
    if nothing := summary.unaccepted(summary.method):
        yield f"NOTHING COMPARED: {nothing}"
    elif summary.trials < limits.calls:
        needed = max(limits.calls, needed_trials(0, limits.mismatch_limit, 1 - error))
        remedy = _others(summary, needed - summary.trials)
        yield f"{_counted(summary, 'call')} compared, {limits.calls:,} asked for (calls){remedy}"


def different(summary: EvidenceSummary) -> str:
    """Return how many of the compared calls differed or failed, what to do after a fix, and the first of them."""
    kinds = ", ".join(f"{aspect} {calls:,}" for aspect, calls in summary.aspects.most_common())
    found = f"{summary.verdicts[DIFFERENT]:,} differed and {summary.verdicts[FAILED]:,} failed{kinds and f' ({kinds})'}"
    first = f"; the first: {summary.first.sentence}" if summary.first else ""
    if summary.first and summary.noise_in(summary.first.where):
        first += "; it differs in the A/A run too, so give that field a rule in [parity.fields]"
    counted = _counted(summary, "compared call")
    return f"{summary.word}: of {counted} {found}; after a fix, `stage demote` sets them aside{first}"


def difference_first(summary: EvidenceSummary, reasons: Sequence[str]) -> list[str]:
    """Return the reasons, led by what differed where something did, whether or not the limits allow it."""
    if not summary.bad:
        return list(reasons)
    told = [one for one in reasons if one.startswith(f"{summary.word}: ")] or [different(summary)]
    return [*told, *(one for one in reasons if one not in told)]


def _open_rate(summary: EvidenceSummary, limits: Limits, error: float, bound: float, loss: float) -> str:
    """Return up to what the rate of mismatches is open, "" where that is within the limit or calls are missing."""
    trials = summary.trials
    if bound <= limits.mismatch_limit or (not summary.bad and trials < limits.calls):
        return ""
    rate = f"a rate of up to {bound * 100:.3g} % is open, the limit is {limits.mismatch_limit * 100:.3g} %"
    if summary.bad:
        bursts = (
            f"; mismatches come in bursts: {trials:,} are worth {trials / loss:,.0f} independent" if loss > 2 else ""
        )
        return f"{rate}{bursts}"
    missing = needed_trials(0, limits.mismatch_limit, 1 - error) - trials
    counted, remedy = _counted(summary, "compared call"), _others(summary, missing)
    return f"of {counted} none differed: {rate}; {plural(missing, 'more call')} would do{remedy}"


def _counted(summary: EvidenceSummary, noun: str) -> str:
    """Return how many calls were compared, and where requests repeat how many there are."""
    repeats = f" of {plural(summary.trials, 'distinct accepted request')}" if summary.trials < summary.compared else ""
    return f"{plural(summary.compared, noun)}{repeats}"


def _others(summary: EvidenceSummary, missing: int) -> str:
    """Return what makes so many other requests, "" where none repeats.

    One seed draws the same ones again, so it takes as many as before and, as some repeat, twice those that are missing.
    """
    if summary.trials == summary.compared:
        return ""
    requests = -(-(summary.kinds[PROOF] + 2 * missing) // 100) * 100
    server = "" if summary.method in OWN else " --server COMMAND"
    return f"; `lucky-transport parity{server} --requests {requests} --evidence DIRECTORY` makes others"


def _unproven(summary: EvidenceSummary, limits: Limits) -> list[str]:
    """Return what is missing of the rung that a method is on: what other rungs and other runs showed is not of it."""
    rung, effect, needed = summary.rung, summary.known.effect, min(limits.calls, ENOUGH)
    if rung is None or (rung.stage is Stage.SHADOW and not summary.is_read):  # it is made once and gRPC answers
        return []
    seen, what = summary.live, "compared"
    if not summary.is_read:
        changed = "something" if effect is Effect.IDEMPOTENT else f"the {effect.value}"
        why = f"what changes {changed} is made once: it is compared on two engines"
        seen, what = summary.by_candidate, f"answered by shared memory ({why})"
    missing = f"at {rung} {seen:,} live calls of {needed:,} were {what}; run the program on this rung"
    return [missing] if seen < needed else []


def _larger_share(summary: EvidenceSummary) -> str:
    """Return what brings timed calls of the candidate sooner, "" where it is not the canary's share that lacks them."""
    rung, lacks = summary.rung, summary.by_candidate * 2 < summary.kinds["live"]
    if rung is None or rung.share >= 0.5 or not lacks or len(summary.tails.candidate) >= ENOUGH_TAILS:
        return ""
    larger = f"`lucky-transport stage set {short_name(summary.method)!r} 'canary 50%'`"
    return f"; a larger share ({larger}) brings calls of shared memory sooner"


def without_shadow(methods: Sequence[ServiceMethod]) -> str:
    """Return which of the methods never get a shadow and how they are compared, "" where all do."""
    changing = [one.name for one in methods if one.effect is not Effect.READ]
    if not changing:
        return ""
    text = f"no shadow is asked of {_listed(changing)}: what a call changes is not changed twice; {_ON_TWO}"
    if unsaid := [one.name for one in methods if one.effect is Effect.WORLD and one.reason == UNSAID]:
        text += (
            f". Of {_listed(unsaid)} {UNSAID}; for one that only reads, write `option idempotency_level = "
            "NO_SIDE_EFFECTS;` into its rpc in the .proto, or into lucky_transport.toml: "
            f'[stages.effects] "{short_name(unsaid[0])}" = "read"'
        )
    return text


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(map(short_name, names[:3])) + (f" and {more:,} more" if more > 0 else "")
