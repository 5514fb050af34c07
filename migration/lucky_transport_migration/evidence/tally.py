"""Counts of what evidence says, for everything that adds it up: a run, a replay, the gate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lucky_transport.errors import plural
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, Evidence

__all__ = ["COMPARED", "Tally"]

#: Verdicts of what was compared.
COMPARED = (EQUAL, DIFFERENT, FAILED)


@dataclass
class Tally:
    """verdicts: how many calls had which. unseen: why calls were not compared. first: that differed or failed.

    unfinished: how many were under way at the end of their program.
    """

    verdicts: Counter[str] = field(default_factory=Counter[str], init=False)
    unseen: Counter[str] = field(default_factory=Counter[str], init=False)
    first: Evidence | None = field(default=None, init=False)
    unfinished: int = field(default=0, init=False)

    def add(self, one: Evidence) -> None:
        """Count a call."""
        self.verdicts[one.verdict] += 1
        self.unfinished += one.is_unfinished
        if one.verdict in (DIFFERENT, FAILED):
            self.first = self.first or one
        elif one.verdict != EQUAL:
            self.unseen[one.why or "no shadow was asked"] += 1

    @property
    def unfinished_text(self) -> str:
        """How many calls were under way at the end of their program, "" for none."""
        return f"{plural(self.unfinished, 'call')} had not ended when the program did" if self.unfinished else ""

    @property
    def calls(self) -> int:
        """How many calls were seen, compared or not."""
        return self.verdicts.total()

    @property
    def compared(self) -> int:
        """How many calls were compared; a candidate that failed was found to be different."""
        return sum(self.verdicts[one] for one in COMPARED)

    @property
    def bad(self) -> int:
        """How many calls differed or failed."""
        return self.verdicts[DIFFERENT] + self.verdicts[FAILED]
