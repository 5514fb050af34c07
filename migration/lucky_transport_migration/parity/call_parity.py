"""The outcome of a proof: per method what was called, how it was answered, and the first difference.

A method counts as proven only where requests were accepted; the sentence says which were not. What was not compared is
listed with the reason. The whole proof is that of typed calls and that of the stepping path, on engines of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lucky_transport.errors import Unimplemented, plural
from lucky_transport.messages.methods import method
from lucky_transport_migration.compare.difference import LocatedDifference
from lucky_transport_migration.compare.rules import UNSEEN, ComparisonRules
from lucky_transport_migration.evidence.record import EQUAL, Evidence
from lucky_transport_migration.evidence.tally import (
    COMPARED,
    Tally,
    compared_text,
    gap_rows,
    gaps_of,
    looked_at,
    nothing_compared,
    refusals_text,
)
from lucky_transport_migration.parity.call_answers import FEW_ITEMS, MOST_ITEMS
from lucky_transport_migration.parity.step_parity import Parity

#: The service that the host answers for every engine.
_OF_THE_HOST = "/hazel.rpc.AgentService/"
_MISSING = "UNIMPLEMENTED"


@dataclass
class ParityCounts(Tally):
    """Calls of one method, by how they were answered, and where the first difference stands.

    took: microseconds of both sides, of each call that was answered by both, firsts: those to the first item.
    """

    first_difference: LocatedDifference | None = None
    took: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    firsts: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def add(self, one: Evidence, *, is_refused: bool = False) -> None:
        """Count a call. is_refused: its response may say that it was."""
        super().add(one)
        if is_refused and one.verdict in COMPARED and one.primary.code == "OK":
            self.refusals["in the response"] += 1
        sides = [side for side in (one.primary, one.shadow) if side is not None and side.is_timed]
        if len(sides) == 2:
            self.took.append((sides[0].us, sides[1].us))
            self.firsts += [(sides[0].first, sides[1].first)] * (sides[0].first > 0 < sides[1].first)

    @staticmethod
    def times(pairs: list[tuple[float, float]]) -> tuple[float, float] | None:
        """Return what lies around the ratio of the second side to the first, the middle one, in 95 % of runs."""
        from lucky_transport_migration.bounds import LEAST_BLOCKS, middle_ratio  # scipy, which few commands need

        if len(pairs) < LEAST_BLOCKS:
            return None
        middle, half, _ = middle_ratio(*zip(*pairs, strict=True), error=0.025)
        return math.exp(middle - half), math.exp(middle + half)


@dataclass(slots=True)
class CommandsParity:
    """The outcome; `equal` only when every answer was. `lost` says which connection ended the proof early, if any did.

    methods: by full name, in the order of the table. engine: its name.
    """

    between: list[str]
    engine: str = ""
    methods: dict[str, ParityCounts] = field(default_factory=dict[str, ParityCounts])
    lost: str = ""
    rules: ComparisonRules = field(default_factory=ComparisonRules)

    @property
    def equal(self) -> bool:
        """True when something was compared, nothing differed, and no method refused each call."""
        is_bad = self.lost or self.unaccepted or any(row.bad for row in self.methods.values())
        return not is_bad and self.calls > 0

    @property
    def calls(self) -> int:
        """All requests that were compared."""
        return sum(row.compared for row in self.methods.values())

    @property
    def unaccepted(self) -> str:
        """The verdict on methods that refused every call, "" where there is none."""
        return nothing_compared(self.methods)

    @property
    def not_offered(self) -> list[str]:
        """Methods that the engine does not have, and all transports alike say so."""
        rows = self.methods.items()
        return [name for name, row in rows if row.refusals[_MISSING] and not row.accepted + row.bad]

    @property
    def offer(self) -> str:
        """What the engine offers, as one sentence; "" where it has every method."""
        if not (missing := self.not_offered):
            return ""
        rest = f"the other {plural(len(missing), 'method')} it refuses alike over all transports"
        if all(name.startswith(_OF_THE_HOST) for name in self.methods.keys() - set(missing)):
            return f"engine {self.engine!r} has no services of its own: AgentService comes with every engine; {rest}"
        offered = plural(len(self.methods) - len(missing), "method")
        return f"engine {self.engine!r} offers {offered}; {rest}"

    @property
    def differences(self) -> list[LocatedDifference]:
        """The first difference of each method, in the order of the calls; what follows one may follow from it."""
        found = [row.first_difference for row in self.methods.values() if row.first_difference is not None]
        return sorted(found, key=lambda one: getattr(one.place, "call", 0))

    @property
    def first_difference(self) -> LocatedDifference | None:
        """The earliest difference of all."""
        return next(iter(self.differences), None)

    @property
    def table(self) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        """The heads and rows of what was called."""
        rows: list[tuple[str, ...]] = []
        for name, row in self.methods.items():
            if name not in self.not_offered:
                numbers = (row.compared, row.verdicts[EQUAL], row.accepted, row.refusals.total())
                rows.append((name.rpartition(".")[2], *map("{:,}".format, numbers)))
        return ("method", "calls", "equal", "ok", "refused"), rows

    @property
    def compared_text(self) -> str:
        """What of the answers was looked at, for people."""
        return compared_text(self.methods.values())

    @property
    def not_compared(self) -> dict[str, str]:
        """What no call was compared in, with the reasons."""
        return {**self.rules.skipped(), **UNSEEN}

    def not_compared_in(self, name: str) -> dict[str, str]:
        """What was not compared in the answers of one method, with the reasons."""
        row, streamed = method(name), method(name).stream is not None
        left_out = self.rules.left_out(row.response, streamed=streamed)
        gaps = gaps_of(name, self.methods[name]) | {key: self.rules.rows[key].skip for key in left_out}
        if streamed:
            gaps[f"items after the first {MOST_ITEMS} of its first call, {FEW_ITEMS} of later ones"] = "it is left then"
        if not self.methods[name].accepted:
            gaps["what it answers to a request it accepts"] = "the engine accepted none"
        return gaps

    @property
    def sentence(self) -> str:
        """The outcome as one sentence, and how many of the answers were refusals."""
        refused = refusals_text(self.methods.values())
        if self.equal:
            requests, methods = plural(self.calls, "request"), plural(len(self.methods), "method")
            return f"EQUAL: all {requests} to {methods} are answered alike in what was compared. {refused}".rstrip()
        if (first := self.first_difference) is not None:
            return f"DIFFERENT: {first.sentence()}"
        if self.lost or not self.calls:
            return f"DIFFERENT: {self.lost}" if self.lost else "NOTHING COMPARED: no call could be compared."
        return self.unaccepted

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        first = self.first_difference
        return {
            "equal": self.equal,
            "between": self.between,
            "calls": self.calls,
            "lost": self.lost,
            "aspects": looked_at(self.methods.values()),
            "methods": {name: self._plain(name, row) for name, row in self.methods.items()},
            "not_offered": self.not_offered,
            "not_compared": gap_rows(self.not_compared),
            "first_difference": first and first.plain(),
        }

    def _plain(self, name: str, row: ParityCounts) -> dict[str, Any]:
        first = row.first_difference
        counts = {"calls": row.compared, "equal": row.verdicts[EQUAL], "mismatches": row.bad, "accepted": row.accepted}
        rest = {"first_difference": first and first.plain(), "not_compared": gap_rows(self.not_compared_in(name))}
        return counts | {"refusals": dict(row.refusals)} | rest


@dataclass(frozen=True, slots=True)
class WholeParity:
    """Both parts; `calls` is None where the transports carry none."""

    steps: Parity
    calls: CommandsParity | None

    @property
    def equal(self) -> bool:
        """True when no part differed."""
        return self.steps.equal and (self.calls is None or self.calls.equal)

    def plain(self) -> dict[str, Any]:
        """Return both parts as JSON values; `first_difference` is that of the steps where they have one."""
        steps = self.steps.plain()
        calls = {} if self.calls is None else self.calls.plain()
        first = steps["first_difference"] or calls.get("first_difference")
        return {"methods": {}, "not_compared": [], **calls, **steps, "equal": self.equal, "first_difference": first}


def prove_whole(prove_steps: Callable[[], Parity], prove_calls: Callable[[], CommandsParity]) -> WholeParity:
    """Return the outcome of both proofs; raises what they raise."""
    steps = prove_steps()
    try:
        return WholeParity(steps, prove_calls())
    except Unimplemented as error:
        steps.leave_out("typed calls", str(error))
        return WholeParity(steps, None)
