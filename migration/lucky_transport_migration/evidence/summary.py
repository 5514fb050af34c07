"""What a process tells its user about the methods that move: at once when one falls back, and a line at its end."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

from lucky_transport.errors import plural
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, NOT_COMPARED, Evidence

__all__ = ["RunSummary", "say"]

#: What no live comparison looks at.
_NEVER = "hints of errors, deadlines that expire, what comes of a stream that was left"


def say(text: str) -> None:
    """Write a line to the process's own stderr, whatever the program has put into sys.stderr."""
    if sys.__stderr__ is not None and not sys.__stderr__.closed:
        sys.__stderr__.write(f"lucky-transport: pid {os.getpid()}: {text}\n")
        sys.__stderr__.flush()


class RunSummary:
    """Counts what came of the calls. lost: calls that were dropped from a full queue."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._unseen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._first: Evidence | None = None
        self.lost = 0

    def add(self, one: Evidence) -> None:
        """Count a call."""
        self._verdicts[one.verdict] += 1
        is_seen = one.verdict != NOT_COMPARED
        self._unseen[one.method]["" if is_seen or one.stage in ("grpc", "complete") else one.why] += 1
        if one.verdict in (DIFFERENT, FAILED):
            self._first = self._first or one

    @property
    def is_bad(self) -> bool:
        """True when something differed, failed or was lost."""
        return self._first is not None or self.lost > 0

    def sentence(self, folder: Path) -> str:
        """Return everything in one line; "" when nothing was compared, should have been, or was lost."""
        compared = sum(self._verdicts[one] for one in (EQUAL, DIFFERENT, FAILED))
        unseen = self._never_compared()
        if not compared and not self.lost and not unseen:
            return ""
        counts = ", ".join(f"{self._verdicts[one]:,} {one}" for one in (EQUAL, DIFFERENT, FAILED))
        calls, methods = plural(self._verdicts.total(), "call"), plural(len(self._unseen), "method")
        alarm = f"{self._first.verdict.upper()}: " if self._first else ""
        text = f"{alarm}{compared:,} of {calls} of {methods} compared: {counts}"
        lost = f"; {self.lost:,} more came too fast to be looked at" if self.lost else ""
        first = f"; the first: {self._first.sentence}" if self._first else ""
        return f"{text}{lost}{first}{unseen}; of no call: {_NEVER}; evidence in {folder}"

    def _never_compared(self) -> str:
        """Return the methods of which no call was looked at, though their stage asks for it, by reason."""
        methods: defaultdict[str, list[str]] = defaultdict(list)
        for method, reasons in self._unseen.items():
            if "" not in reasons:
                methods[max(reasons, key=lambda why: reasons[why])].append(method)
        return "".join(f"; not looked at: {', '.join(names)}: {why}" for why, names in methods.items())
