"""What a process tells its user about the methods that move: at once when one falls back, and a line at its end."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

from lucky_transport.errors import plural
from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.evidence.tally import COMPARED, Tally

#: What no live comparison looks at.
NEVER = "hints of errors, deadlines that expire, what comes of a stream that was left, whether a read changes anything"


def say(text: str) -> None:
    """Write a line to the process's own stderr, whatever the program has put into sys.stderr."""
    if sys.__stderr__ is not None and not sys.__stderr__.closed:
        sys.__stderr__.write(f"lucky-transport: pid {os.getpid()}: {text}\n")
        sys.__stderr__.flush()


class RunSummary(Tally):
    """What came of the calls of all methods. lost: calls that were dropped from a full queue."""

    def __init__(self) -> None:
        super().__init__()
        self._methods: defaultdict[str, Tally] = defaultdict(Tally)
        self._unwatched: set[str] = set()  # methods whose stage asks for no shadow
        self.lost = 0

    def add(self, one: Evidence) -> None:
        """Count a call."""
        super().add(one)
        self._methods[one.method].add(one)
        if one.stage in ("grpc", "complete"):
            self._unwatched.add(one.method)

    @property
    def is_bad(self) -> bool:
        """True when something differed, failed or was lost."""
        return self.first is not None or self.lost > 0

    def sentence(self, folder: Path) -> str:
        """Return everything in one line; "" when nothing was compared, should have been, or was lost."""
        unseen = self._never_compared()
        if not self.compared and not self.lost and not self.unfinished and not unseen:
            return ""
        counts = ", ".join(f"{self.verdicts[one]:,} {one}" for one in COMPARED)
        calls, methods = plural(self.calls, "call"), plural(len(self._methods), "method")
        alarm = f"{self.first.verdict.upper()}: " if self.first else ""
        text = f"{alarm}{self.compared:,} of {calls} of {methods} compared: {counts}"
        lost = f"; {self.lost:,} more came too fast to be looked at" if self.lost else ""
        lost += f"; {self.unfinished_text}" if self.unfinished else ""
        first = f"; the first: {self.first.sentence}" if self.first else ""
        return f"{text}{lost}{first}{unseen}; of no call: {NEVER}; evidence in {folder}"

    def _never_compared(self) -> str:
        """Return the methods of which no call was looked at, though their stage asks for it, by reason."""
        methods: defaultdict[str, list[str]] = defaultdict(list)
        for method, tally in self._methods.items():
            if not tally.compared and method not in self._unwatched:
                methods[tally.unseen.most_common(1)[0][0]].append(method)
        return "".join(f"; not looked at: {', '.join(names)}: {why}" for why, names in methods.items())
