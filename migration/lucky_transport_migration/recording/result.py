"""What a replay came to: counts per method, and the first difference.

Equal means that something was compared, none of it differed, and the recording was whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.compare.rules import UNSEEN, ComparisonRules
from lucky_transport_migration.evidence.compare import ASPECTS
from lucky_transport_migration.evidence.record import EQUAL, NOT_COMPARED, Evidence

__all__ = ["ReplayCounts", "ReplayResult"]

#: What no replay looks at, with the reasons.
_UNSEEN = {
    "hints of errors": "a recording holds their status and text",
    "deadlines": "every call is made with one of a minute",
    "what comes of a stream that was left": "a recording ends there; `lucky-transport parity` asks the engine",
    "latency": "a recording is of another day",
}


@dataclass
class ReplayCounts:
    """One method's calls. mismatches: answered differently, or not at all. not_compared: reason -> calls."""

    calls: int = 0
    mismatches: int = 0
    not_compared: Counter[str] = field(default_factory=Counter[str])


@dataclass
class ReplayResult:
    """See the module. rules: what answers were compared by. torn: how a recording ends that is not whole. aspects: what
    of the answers was compared.
    """

    rules: ComparisonRules = field(default_factory=ComparisonRules)
    methods: dict[str, ReplayCounts] = field(default_factory=dict[str, ReplayCounts])
    first_difference: Evidence | None = None
    torn: str = ""
    aspects: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, evidence: Evidence) -> None:
        """Count a call or step."""
        row = self.methods.setdefault(evidence.method, ReplayCounts())
        row.calls += 1
        if evidence.verdict == NOT_COMPARED:
            row.not_compared[evidence.why] += 1
            return
        self.aspects |= dict.fromkeys(name for name in ASPECTS if name not in evidence.left_out)
        if evidence.verdict != EQUAL:
            row.mismatches += 1
            self.first_difference = self.first_difference or evidence

    @property
    def calls(self) -> int:
        """How many calls and steps were played."""
        return sum(row.calls for row in self.methods.values())

    @property
    def compared(self) -> int:
        """How many of them were compared."""
        return self.calls - sum(row.not_compared.total() for row in self.methods.values())

    @property
    def equal(self) -> bool:
        """True when something was compared, nothing differed, and the recording was whole."""
        return self.compared > 0 and self.first_difference is None and not self.torn

    @property
    def left_out(self) -> dict[str, str]:
        """What no answer was compared in, with the reasons."""
        return {**self.rules.skipped(), **UNSEEN, **_UNSEEN}

    @property
    def sentence(self) -> str:
        """The outcome as one sentence."""
        if self.first_difference is not None:
            return f"DIFFERENT: {self.first_difference.sentence}"
        if not self.compared:
            return f"NOTHING COMPARED: of {self._recorded} none could be compared."
        if self.torn:
            return f"INCOMPLETE: {self.compared:,} of {self._recorded} were compared and are equal, but {self.torn}."
        return f"EQUAL: {self.compared:,} of {self._recorded} were compared, and all are equal."

    @property
    def _recorded(self) -> str:
        return plural(self.calls, "recorded call or step", "recorded calls and steps")

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        rows = {
            name: {
                "calls": row.calls,
                "mismatches": row.mismatches,
                "not_compared": [{"why": why, "calls": calls} for why, calls in row.not_compared.items()],
            }
            for name, row in self.methods.items()
        }
        first = None if self.first_difference is None else asdict(self.first_difference)
        return {
            "equal": self.equal,
            "torn": self.torn,
            "calls": self.calls,
            "compared": self.compared,
            "aspects": list(self.aspects),
            "methods": rows,
            "left_out": [{"what": what, "why": why} for what, why in self.left_out.items()],
            "first_difference": first,
        }
