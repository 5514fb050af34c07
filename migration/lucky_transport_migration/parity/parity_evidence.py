"""What a proof of commands or of steps saw, as evidence for the gate.

Evidence of two engines is the only one of calls that change the world, and of exchanges. What no client would send over
either transport, a wrong call on purpose, is no evidence.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucky_transport.messages.methods import Method
from lucky_transport.routing import Decision
from lucky_transport_migration.compare.difference import Difference, LocatedDifference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison, call_outcome, ending_of
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, EXCHANGE, Evidence, SideResult
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import CallResult
from lucky_transport_migration.stages.effective_stages import STEP

__all__ = ["EvidenceWriter"]

_log = logging.getLogger("lucky_transport")


class EvidenceWriter:
    """Writes a line of evidence per compared request or step into `folder`."""

    def __init__(self, folder: Path, rules: ComparisonRules) -> None:
        self._folder = folder
        self._rules = rules
        self._lines = Lines(_log.warning)

    def note(
        self,
        method: Method,
        request: Any,
        sides: tuple[tuple[str, CallResult], tuple[str, CallResult]],
        found: Difference | None,
    ) -> None:
        """Write what two transports, by name, answered, and where that differs; what cannot be written is logged."""
        (left, mine), (right, other) = sides
        outcomes = (_outcome(left, method, mine), _outcome(right, method, other))
        decision = Decision(left, right, "parity")
        made = Comparison(method.name, decision, *outcomes, request, ended_early=method.stream is not None)
        evidence = replace(compare(made, self._rules, kind="parity"), at=moment(time.time()))
        if found is not None and evidence.verdict == EQUAL:  # of streams, more is compared by a proof
            evidence = differing_at(found, evidence)
        self._lines.write(self._folder, [evidence])

    def note_step(self, took_us: Mapping[str, float], found: LocatedDifference | None = None) -> None:
        """Write what a step took on each path, by name, the baseline first, and where it differs."""
        (left, *others), at = took_us, moment(time.time())
        for right in others:
            sides = (SideResult(name.partition("#")[0], us=took_us[name]) for name in (left, right))
            kind = "aa" if right.partition("#")[0] == left else "parity"
            evidence = Evidence(STEP, EXCHANGE, *sides, kind=kind, verdict=EQUAL, at=at)
            if found is not None:
                place, what = found.place.plain(found.difference, {}), found.difference
                env = "" if what.env is None else f"[env {what.env}]"
                where = f"exchange {place['exchange']}: {what.where}{env}"
                evidence = replace(evidence, verdict=DIFFERENT, aspect="item", where=where, values=found.values)
            self._lines.write(self._folder, [evidence])

    def close(self) -> None:
        """Close the file; idempotent."""
        self._lines.close()


def _outcome(transport: str, method: Method, answer: CallResult) -> CallOutcome:
    """Return an answer as an outcome. A stream that was left on purpose ended well; it has no duration of its own."""
    if method.stream is not None and answer.items:
        return CallOutcome(transport, answer.items)
    if answer.raised is None:
        return CallOutcome(transport, answer.items, took_us=answer.took_us)
    return call_outcome(transport, (), ending_of(answer.raised), int(answer.took_us * 1e3))
