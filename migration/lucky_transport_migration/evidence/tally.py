"""Counts of what evidence says, for everything that adds it up: a run, a proof, a replay, the gate, the page to sign.

A method counts as compared only where a call of it was accepted: that two transports refuse alike says little of what
they answer. Each verdict, and each sentence on what was compared, is made of these counts.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lucky_transport.errors import plural
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.evidence.call_comparison import ASPECTS, BEYOND
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, Evidence

#: Verdicts of what was compared.
COMPARED = (EQUAL, DIFFERENT, FAILED)

_MISSING = "UNIMPLEMENTED"
#: What a check of tokens answers.
_UNCHECKED = {"UNAUTHENTICATED", "PERMISSION_DENIED"}


@dataclass
class Tally:
    """verdicts: how many calls had which. unseen: why calls were not compared. first: that differed or failed.

    unfinished: how many were under way at the end of their program. Of the compared ones: refusals: how many were
    refused with which status; unanswered: how many the caller's own side ended before a response; looked_at: how many
    were compared in which aspect; left_out: in how many what was left out, and why.
    """

    verdicts: Counter[str] = field(default_factory=Counter[str], init=False)
    unseen: Counter[str] = field(default_factory=Counter[str], init=False)
    first: Evidence | None = field(default=None, init=False)
    unfinished: int = field(default=0, init=False)
    unanswered: int = field(default=0, init=False)
    refusals: Counter[str] = field(default_factory=Counter[str], init=False)
    looked_at: Counter[str] = field(default_factory=Counter[str], init=False)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]], init=False)

    def add(self, one: Evidence) -> None:
        """Count a call."""
        self.verdicts[one.verdict] += 1
        self.unfinished += one.is_unfinished
        if one.verdict in (DIFFERENT, FAILED):
            self.first = min(self.first or one, one, key=lambda it: it.at)
        elif one.verdict != EQUAL:
            self.unseen[one.why or "no shadow was asked"] += 1
        if one.verdict not in COMPARED:
            return
        side = one.primary
        if side.code != "OK" and not side.local:
            self.refusals[side.code] += 1
        self.unanswered += side.local and not side.items
        self.left_out.update(one.left_out.items())
        self.looked_at.update(["status"] if one.verdict == FAILED else [it for it in ASPECTS if it not in one.left_out])

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
    def accepted(self) -> int:
        """How many of the compared calls had a response."""
        return self.compared - self.refusals.total() - self.unanswered

    @property
    def bad(self) -> int:
        """How many calls differed or failed."""
        return self.verdicts[DIFFERENT] + self.verdicts[FAILED]

    def unaccepted(self, method: str) -> str:
        """Return why what was compared of `method` proves nothing, "" where a call was accepted, or none compared.

        A method of LuckyEngine's that an engine does not have is refused alike, and that is its answer.
        """
        if self.accepted or not self.compared or (method in OWN and self.refusals[_MISSING]):
            return ""
        codes = f" ({_codes(self.refusals)})" if self.refusals else ""
        return f"none of {plural(self.compared, 'compared call')} was accepted{codes}"


def refusals_text(tallies: Collection[Tally]) -> str:
    """Return how many compared answers were refusals, and of which status, as a sentence; "" for none."""
    found = sum((one.refusals for one in tallies), Counter[str]())
    if not found:
        return ""
    verb = "was a refusal" if found.total() == 1 else "were refusals"
    whole = plural(sum(one.compared for one in tallies), "compared answer")
    return f"{found.total():,} of {whole} {verb}: {_codes(found)}."


def _codes(found: Counter[str]) -> str:
    return ", ".join(f"{calls:,} {code}" for code, calls in found.most_common())


def nothing_compared(methods: Mapping[str, Tally]) -> str:
    """Return the verdict on methods none of whose calls was accepted, "" where there is none."""
    found = "; ".join(f"{name}: {why}" for name, one in methods.items() if (why := one.unaccepted(name)))
    codes = {code for one in methods.values() for code in one.refusals}
    remedy = " Pass what the server asks for: --metadata 'KEY=$VARIABLE'." if codes and codes <= _UNCHECKED else ""
    return f"NOTHING COMPARED: {found}.{remedy}" if found else ""


def looked_at(tallies: Collection[Tally]) -> dict[str, int]:
    """Return what of the compared answers was looked at, each with in how many."""
    found = sum((one.looked_at for one in tallies), Counter[str]())
    return {name: found[name] for name in ASPECTS if name in found}


def compared_text(tallies: Collection[Tally]) -> str:
    """Return what of the compared answers was looked at, for people."""
    whole = sum(one.compared for one in tallies)
    return ", ".join(
        name if calls == whole else f"{name} in {calls:,} of {plural(whole, 'call')}"
        for name, calls in looked_at(tallies).items()
    )


def gap_rows(gaps: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what was not compared, with the reasons, as JSON values."""
    return [{"what": what, "why": why} for what, why in gaps.items()]


def gaps_of(name: str, tally: Tally) -> dict[str, str]:
    """Return what of the calls of a method was not compared, with the reasons."""
    calls = {f"{count:,} of {plural(tally.calls, 'call')} of {name}": why for why, count in tally.unseen.items()}
    grouped: dict[tuple[int, str, str], list[str]] = {}
    for (what, why), count in tally.left_out.items():  # aspects that go together have one line
        grouped.setdefault((count, why, what if what not in (*ASPECTS, BEYOND) else ""), []).append(what)
    for (count, why, _), found in grouped.items():
        share = "" if count == tally.compared else f", in {count:,} of {plural(tally.compared, 'call')} of {name}"
        calls[f"{', '.join(found)}{share}"] = why
    return calls


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
        refused = refusals_text([self]).removesuffix(".")
        counts += f"; {refused}" if refused else ""
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
