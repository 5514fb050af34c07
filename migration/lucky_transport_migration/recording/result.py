"""What a replay came to: counts per method, and the first difference.

Equal means that something was compared, none of it differed, and the recording was whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.compare.rules import METADATA_OF_CALLS, UNSEEN, ComparisonRules
from lucky_transport_migration.evidence.call_comparison import ASPECTS
from lucky_transport_migration.evidence.record import NOT_COMPARED, Evidence
from lucky_transport_migration.evidence.tally import Tally
from lucky_transport_migration.recording.asking import AS_BYTES, WITHOUT

__all__ = ["ReplayResult"]

_DEADLINES = "deadlines"

#: What no replay looks at, with the reasons.
_UNSEEN = {
    "hints of errors": "a recording holds their status and text",
    _DEADLINES: "every call of LuckyEngine's is made with one of a minute",
    "what comes of a stream that was left": "a recording ends there; `lucky-transport parity` asks the engine",
    "latency": "a recording is of another day",
}


def _why(name: str) -> str:
    """Return why a call was not compared in what `name` says, "" where another place says it."""
    if name == AS_BYTES:
        return "nothing describes the service, so bytes are compared"
    if name.startswith(WITHOUT):
        return "its value is a secret, which no recording has, so the call is made without"
    return ""


@dataclass
class ReplayResult(Tally):
    """See the module. rules: what answers were compared by. torn: how a recording ends that is not whole. aspects: what
    of the answers was compared. beside: what single calls were not compared in, with the reasons.
    """

    rules: ComparisonRules = field(default_factory=ComparisonRules)
    methods: dict[str, Tally] = field(default_factory=dict[str, Tally])
    torn: str = ""
    aspects: dict[str, None] = field(default_factory=dict[str, None])
    beside: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, one: Evidence) -> None:
        """Count a call or step."""
        super().add(one)
        self.methods.setdefault(one.method, Tally()).add(one)
        if one.verdict != NOT_COMPARED:
            self.aspects |= dict.fromkeys(name for name in ASPECTS if name not in one.left_out)
            self.beside |= {name: why for name in one.left_out if (why := _why(name))}

    @property
    def equal(self) -> bool:
        """True when something was compared, nothing differed, and the recording was whole."""
        return self.compared > 0 and self.first is None and not self.torn

    @property
    def left_out(self) -> dict[str, str]:
        """What no answer was compared in, with the reasons."""
        sees_metadata = "headers" in self.aspects
        unseen = {what: why for what, why in UNSEEN.items() if not (sees_metadata and what == METADATA_OF_CALLS)}
        never = {what: why for what, why in _UNSEEN.items() if not (what == _DEADLINES and self._is_foreign)}
        return {**self.rules.skipped(), **self.beside, **unseen, **never}

    @property
    def _is_foreign(self) -> bool:
        return not any(name in OWN for name in self.methods)

    @property
    def sentence(self) -> str:
        """The outcome, and how many calls have no end in the recording."""
        unfinished = f" {self.unfinished_text}: no more is compared than came until then." if self.unfinished else ""
        return f"{self._outcome}{unfinished}"

    @property
    def _outcome(self) -> str:
        if self.first is not None:
            return f"DIFFERENT: {self.first.sentence}"
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
                "mismatches": row.bad,
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
            "aspects": list(self.aspects),
            "methods": rows,
            "left_out": [{"what": what, "why": why} for what, why in self.left_out.items()],
            "first_difference": first,
        }
