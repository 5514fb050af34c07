"""What a proof saw, as evidence for the gate.

Evidence of two engines is the only one of calls that change the world, and of exchanges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lucky_transport_migration.catalogue.descriptors import keep_set
from lucky_transport_migration.compare.difference import LocatedDifference
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, EXCHANGE, Evidence, SideResult
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
