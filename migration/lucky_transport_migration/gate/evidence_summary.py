"""What the evidence of one method adds up to: counts, first difference, durations.

A duration counts where the call succeeded, and only of calls made now: a recording's are another day's. A shadow runs
beside its caller's own thread and is measured apart from calls that a caller waited for.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict

from lucky_transport_migration.evidence.record import CONTROL, DIFFERENT, EQUAL, FAILED, Evidence, SideResult
from lucky_transport_migration.gate.latency import ENOUGH, Samples

__all__ = ["EvidenceSummary"]

_INDEX = re.compile(r"\[\d+\]")

#: (is it the control, did its caller wait for it) -> durations in microseconds.
_Durations = defaultdict[tuple[bool, bool], "array[float]"]


def _durations() -> _Durations:
    return defaultdict(lambda: array("d"))


class EvidenceSummary:
    """Adds up one method's evidence; `add` it in any order.

    verdicts: how many calls had which verdict. aspects: of mismatches and failures, what they were. unseen: why calls
    were not compared. first: the first sentence on a difference. left_out: fields that rules leave out.
    """

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.aspects: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.stages: set[str] = set()
        self.first: Evidence | None = None
        self.left_out: dict[str, None] = {}
        self.twins: tuple[array[float], array[float]] = (array("d"), array("d"))
        self._noisy: set[str] = set()
        self._durations = _durations()

    def add(self, one: Evidence) -> None:
        """Count a call."""
        if one.kind == "aa":
            self._add_twins(one)
            return
        self.verdicts[one.verdict] += 1
        self.stages.add(one.stage.partition(" ")[0])
        self.left_out |= dict.fromkeys(one.left_out)
        if one.verdict in (DIFFERENT, FAILED):
            self.first = self.first or one
            self.aspects[one.aspect or one.verdict] += 1
        elif one.verdict != EQUAL:
            self.unseen[one.why or "no shadow was asked"] += 1
        if one.kind != "replay":
            self._add_duration(one.authority, waited=True)
            self._add_duration(one.shadow, waited=one.kind != "live")

    @property
    def calls(self) -> int:
        """How many calls were seen, compared or not."""
        return self.verdicts.total()

    @property
    def compared(self) -> int:
        """How many calls were compared; a candidate that failed was found to be different."""
        return self.verdicts[EQUAL] + self.verdicts[DIFFERENT] + self.verdicts[FAILED]

    @property
    def moving(self) -> bool:
        """True when there is something to judge: a call was compared, or both transports answer live calls."""
        return bool(self.compared or self.stages & {"shadow", "canary", "shm"})

    def judges_tail(self) -> bool:
        """True when callers waited for the candidate as well as for the control, or are beginning to."""
        return "canary" in self.stages or min(len(samples) for samples in self.waited()) >= ENOUGH

    def waited(self) -> tuple[Samples, Samples]:
        """Return the durations of control and candidate in calls that a caller waited for."""
        return self._durations[True, True], self._durations[False, True]

    def durations(self) -> tuple[Samples, Samples]:
        """Return those of the control and of the candidate: of calls that were waited for, where there are enough."""
        if min(len(samples) for samples in self.waited()) >= ENOUGH:
            return self.waited()
        return (
            self._durations[True, True] + self._durations[True, False],
            self._durations[False, True] + self._durations[False, False],
        )

    def noise_in(self, where: str) -> bool:
        """True when a field differs between two calls over one transport as well; indexes do not count."""
        return _INDEX.sub("[]", where) in self._noisy

    def _add_twins(self, one: Evidence) -> None:
        if one.verdict == DIFFERENT:
            self._noisy.add(_INDEX.sub("[]", one.where))
        elif one.verdict == EQUAL and one.shadow is not None and min(one.authority.us, one.shadow.us) > 0:
            for samples, side in zip(self.twins, (one.authority, one.shadow), strict=True):
                samples.append(side.us)

    def _add_duration(self, side: SideResult | None, *, waited: bool) -> None:
        if side is not None and side.code == "OK" and side.us > 0:
            self._durations[side.transport == CONTROL, waited].append(side.us)
