"""What a replay came to: counts per method, and the first difference.

Equal means that something was compared, none of it differed, and the recording was whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.compare.rules import METADATA_OF_CALLS, UNSEEN
from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.evidence.tally import Tally, gaps_of, looked_at, nothing_compared, refusals_text

#: Why calls and steps are not made.
UNMADE = "the server or engine does not answer any more"

_DEADLINES = "deadlines"

#: What no replay looks at, with the reasons.
_UNSEEN = {
    "hints of errors": "a recording holds their status and text",
    _DEADLINES: "every call of LuckyEngine's is made with one of a minute",
    "what comes of a stream that was left": "a recording ends there; `lucky-transport parity` asks the engine",
    "latency": "a recording is of another day",
}


@dataclass
class ReplayResult(Tally):
    """See the module. torn: how a recording ends that is not whole."""

    methods: dict[str, Tally] = field(default_factory=dict[str, Tally])
    torn: str = ""

    def add(self, one: Evidence) -> None:
        """Count a call or step."""
        super().add(one)
        self.methods.setdefault(one.method, Tally()).add(one)

    @property
    def equal(self) -> bool:
        """True when something was compared, nothing differed, no method refused all, and the recording was whole."""
        return self.compared > 0 and self.first is None and not self.torn and not nothing_compared(self.methods)

    @property
    def not_compared(self) -> dict[str, str]:
        """What was not compared, with the reasons."""
        found = dict[str, str]()
        for name, row in self.methods.items():
            found |= gaps_of(name, row)
        is_own = any(name in OWN for name in self.methods)
        unseen = {what: why for what, why in UNSEEN.items() if what != METADATA_OF_CALLS}
        never = {what: why for what, why in _UNSEEN.items() if what != _DEADLINES or is_own}
        return {**found, **unseen, **never}

    @property
    def sentence(self) -> str:
        """The outcome, and how many calls have no end in the recording, or were not made."""
        found = self._outcome
        if self.unfinished:
            found += f" {self.unfinished_text}: no more is compared than came until then."
        if unmade := self.unseen[UNMADE]:
            found += f" {plural(unmade, 'call or step was', 'calls and steps were')} not made: {UNMADE}."
        return found

    @property
    def _outcome(self) -> str:
        if self.first is not None:
            return f"DIFFERENT: {self.first.sentence}"
        if not self.compared:
            return f"NOTHING COMPARED: of {self._recorded} none could be compared."
        if self.torn:
            return f"INCOMPLETE: {self.compared:,} of {self._recorded} were compared and are equal, but {self.torn}."
        if nothing := nothing_compared(self.methods):
            return nothing
        equal = f"EQUAL: {self.compared:,} of {self._recorded} were compared, and all are equal."
        return f"{equal} {refusals_text(self.methods.values())}".rstrip()

    @property
    def _recorded(self) -> str:
        return plural(self.calls, "recorded call or step", "recorded calls and steps")

    def plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        rows = {
            name: {
                "calls": row.calls,
                "mismatches": row.bad,
                "refusals": dict(row.refusals),
                "not_compared": [{"why": why, "calls": calls} for why, calls in row.unseen.items()],
            }
            for name, row in self.methods.items()
        }
        first = None if self.first is None else asdict(self.first)
        return {
            "equal": self.equal,
            "torn": self.torn,
            "calls": self.calls,
            "compared": self.compared,
            "unfinished": self.unfinished,
            "aspects": looked_at(self.methods.values()),
            "methods": rows,
            "left_out": [{"what": what, "why": why} for what, why in self.not_compared.items()],
            "first_difference": first,
        }
