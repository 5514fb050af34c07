"""What the evidence of one method adds up to: trials, first difference, durations.

A trial is a distinct request that was accepted, or answered differently: that both sides refuse one says nothing of
others. Repeats count once, and a mismatch in one of them is one of the trial. A request that carries nothing cannot be
varied, so each such call is a trial. A duration counts where the call succeeded, and only of calls made now: a
recording's are another day's.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages.method import Effect
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.record import CONTROL, DIFFERENT, EQUAL, EXCHANGE, GAP, NOT_COMPARED, Evidence
from lucky_transport_migration.evidence.tally import COMPARED, Tally, refusals_text
from lucky_transport_migration.gate.latency import ENOUGH, Pairs, Tails
from lucky_transport_migration.stages.effective_stages import STEP, EffectiveStages
from lucky_transport_migration.stages.stage import Stage

#: Stages that the gate is asked about: from `grpc` on nothing is at stake, and `complete` is the last one.
JUDGED = frozenset({Stage.SHADOW, Stage.CANARY, Stage.SHM})

_INDEX = re.compile(r"\[\d+\]")
_TYPED_STEP = (
    "a typed call of Step is none of the exchanges that move with it; `lucky-transport parity --suite step "
    "--evidence DIRECTORY` and `replay --evidence DIRECTORY` compare those"
)


class EvidenceSummary(Tally):
    """Adds up one method's evidence; `add` it process by process, each in its order: what lasts shows in that order.

    kinds: how many calls were of which. moments: of the first and the last of them, empty before. aspects: of
    mismatches and failures, what they were. gaps: what proofs compared in no call. pairs: of control and candidate, aa:
    of an A/A run, whose last pair is of the moment aa_at. firsts: the same of the times to the first item of a stream.
    tails: durations of calls that a caller waited for; a shadow's are those of its thread. live: calls of programs that
    were compared, by_candidate: those that the candidate answered. known: what is known of the method. stage: where
    `standing` has it, rung: the same, None where that is no stage that the gate judges. timed: the kinds of calls whose
    durations count, but for those made at `grpc`.

    Live calls of another rung do not count; of a READ on a rung only live calls are timed.
    """

    def __init__(self, method: str = "", standing: EffectiveStages | None = None) -> None:
        super().__init__()
        self.method = method
        self.known = standing.plan.catalogue.method(method) if standing else ServiceMethod(method, Effect.WORLD, "")
        self.stage = standing.placement(method) if standing else None
        self.rung = self.stage if self.stage and self.stage.stage in JUDGED else None
        self.timed = ("live",) if self.rung and self.is_read else ("live", "parity")
        self.kinds: Counter[str] = Counter()
        self.moments: tuple[str, ...] = ()
        self.aspects: Counter[str] = Counter()
        self.stages: set[str] = set()
        self.gaps: dict[str, None] = {}
        self.aa_at = ""
        self.live = self.by_candidate = 0
        self.pairs, self.aa, self.firsts = (Pairs(array("d"), array("d")) for _ in range(3))
        self.tails = Tails(array("d"), array("d"))
        self._noisy: set[str] = set()
        self._is_bad: defaultdict[str | int, bool] = defaultdict(bool)

    def add(self, one: Evidence) -> None:
        """Count a call. One of Step counts where it is an exchange, whose code is another than a typed call's."""
        if one.stage == GAP:
            self.gaps[one.why] = None
            return None
        if one.kind == "aa":
            return self._add_aa(one)
        if one.kind == "live":
            if self.rung is not None and one.stage != str(self.rung):
                return
            self.live += one.verdict in COMPARED
            self.by_candidate += one.primary.transport != CONTROL
        elif self.method == STEP and one.stage != EXCHANGE and one.verdict != NOT_COMPARED:
            one = replace(one, verdict=NOT_COMPARED, why=_TYPED_STEP, left_out={})
        super().add(one)
        self.kinds[one.kind] += 1
        self.moments = min((*self.moments, one.at)), max((*self.moments, one.at))
        self.stages.add(one.stage.partition(" ")[0])
        if one.verdict in COMPARED:
            is_accepted = one.primary.items > 0 if one.primary.local else one.primary.code == "OK"
            if is_accepted or one.verdict != EQUAL:
                self._is_bad[one.request or self.trials] |= one.verdict != EQUAL
            self.aspects.update([one.aspect or one.verdict] if one.verdict != EQUAL else ())
        if one.kind in self.timed and one.stage != "grpc":  # calls of one transport, of another moment
            self._add_durations(one)

    @property
    def is_read(self) -> bool:
        """True for a method that may be asked twice."""
        return self.known.effect is Effect.READ

    @property
    def trials(self) -> int:
        """How many distinct requests were accepted, or answered differently."""
        return len(self._is_bad)

    @property
    def bad_trials(self) -> NDArray[np.bool_]:
        """Which trials have a mismatch or a failure, in the order in which they were made first; (0,) where none."""
        return np.fromiter(self._is_bad.values() if self.bad else (), np.bool_)

    @property
    def word(self) -> str:
        """What the method is called by its compared calls, "" where none of them differed or failed."""
        return "" if not self.bad else "DIFFERENT" if self.verdicts[DIFFERENT] else "FAILED"

    @property
    def moving(self) -> bool:
        """True when there is something to judge: a call was compared, or both transports answer live calls."""
        return bool(self.compared or self.stages & JUDGED or _TYPED_STEP in self.unseen)

    def plain(self) -> dict[str, Any]:
        """Return what was counted as JSON values. distinct: how many trials there are."""
        return {
            "calls": self.calls,
            "kinds": dict(self.kinds),
            "earliest": min(self.moments, default=""),
            "latest": max(self.moments, default=""),
            "compared": self.compared,
            "distinct": self.trials,
            "mismatches": self.verdicts[DIFFERENT],
            "failures": self.bad - self.verdicts[DIFFERENT],
            "refused": refusals_text([self]),
            "looked_at": dict(self.looked_at),
            "not_compared": [{"why": why, "calls": calls} for why, calls in self.unseen.most_common()],
            "left_out": [{"what": what, "why": why, "calls": n} for (what, why), n in self.left_out.most_common()],
            "gaps": list(self.gaps),
            "aspects": dict(self.aspects),
            "first": self.first.sentence if self.first else "",
            "aa_calls": len(self.aa),
            "aa_at": self.aa_at,
        }

    def judges_tail(self) -> bool:
        """True when callers waited for the candidate as well as for the control, or are beginning to."""
        return "canary" in self.stages or len(self.tails) >= ENOUGH

    def noise_in(self, where: str) -> bool:
        """True when a field differs between two calls over one transport as well; indexes do not count."""
        return _INDEX.sub("[]", where) in self._noisy

    def _add_aa(self, one: Evidence) -> None:
        if one.verdict == EQUAL and one.shadow and one.primary.is_timed and one.shadow.is_timed:
            self.aa_at = max(self.aa_at, one.at)
            self.aa.add(one.primary.us, one.shadow.us)
        elif one.verdict in COMPARED and one.verdict != EQUAL:
            self._noisy.add(_INDEX.sub("[]", one.where))

    def _add_durations(self, one: Evidence) -> None:
        timed = [side for side in (one.primary, one.shadow) if side and side.is_timed]
        sides = {side.transport == CONTROL: side.us for side in timed}
        if len(sides) == 2:
            self.pairs.add(sides[True], sides[False])
            firsts = {side.transport == CONTROL: side.first for side in timed}
            if all(firsts.values()):
                self.firsts.add(firsts[True], firsts[False])
        for side in timed:
            if one.kind != "live" or side is one.primary:  # a caller waited for it
                (self.tails.control if side.transport == CONTROL else self.tails.candidate).append(side.us)
