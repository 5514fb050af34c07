"""A call that a proof has made on both sides, and what proofs saw as evidence for the gate.

Evidence of two engines is the only one of calls that change the world, and of exchanges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lucky_transport_migration.catalogue.descriptors import keep_set
from lucky_transport_migration.compare.difference import AtCall, Difference, LocatedDifference
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, EXCHANGE, FAILED, Evidence, SideResult
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.stages.effective_stages import STEP

_log = logging.getLogger("lucky_transport")


class EvidenceWriter:
    """Writes evidence into `folder`, None = nowhere. described: what describes the services, which is kept with it."""

    def __init__(self, folder: Path | None, described: Sequence[bytes] = ()) -> None:
        self._folder = folder
        self._lines = Lines(_log.warning)
        if folder is not None and described:
            folder.mkdir(parents=True, exist_ok=True)
            for content in described:
                keep_set(folder, content)

    def write(self, evidence: Evidence) -> None:
        """Write what a call or an exchange showed just now; what cannot be written is logged."""
        if self._folder is not None:
            self._lines.write(self._folder, [replace(evidence, at=moment(time.time()))])

    def write_step(self, took_us: Mapping[str, float], found: LocatedDifference | None = None) -> None:
        """Write what a step took on each path, by name, the baseline first, and where it differs."""
        left, *others = took_us
        for right in others:
            sides = (SideResult(name.partition("#")[0], us=took_us[name]) for name in (left, right))
            kind = "aa" if right.partition("#")[0] == left else "parity"
            evidence = Evidence(STEP, EXCHANGE, *sides, kind=kind, verdict=EQUAL)
            if found is not None:
                place, what = found.place.plain(found.difference, {}), found.difference
                env = "" if what.env is None else f"[env {what.env}]"
                where = f"exchange {place['exchange']}: {what.where}{env}"
                evidence = replace(evidence, verdict=DIFFERENT, aspect="item", where=where, values=found.values)
            self.write(evidence)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._lines.close()


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The call, which says itself as `text`, and the evidence of it."""

    call: Any
    evidence: Evidence

    @property
    def differs(self) -> bool:
        """True where both did not answer alike."""
        return self.evidence.verdict in (DIFFERENT, FAILED)

    @property
    def is_gone(self) -> bool:
        """True where the connection to one of them was lost."""
        sides = (self.evidence.primary, self.evidence.shadow)
        return any(one is not None and one.local and one.code == "UNAVAILABLE" for one in sides)

    def located(self, number: int, what: str, names: tuple[str, str] | None = None) -> LocatedDifference:
        """Return the difference as a report shows it; see `located`."""
        return located(self.evidence, number, what, self.call.text, names)


def located(
    evidence: Evidence, number: int, what: str, request: str, names: tuple[str, str] | None = None
) -> LocatedDifference:
    """Return the difference of the call of that number. names: of the sides, other than those of their transports."""
    (left, mine), (right, other) = evidence.values.items()
    found = Difference(evidence.aspect, evidence.where, mine, other)
    return LocatedDifference(found, names or (left, right), AtCall(evidence.method, number, what, request))
