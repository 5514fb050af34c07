"""What evidence there is for a method's next promotion.

What was seen live counts from the method's last move on: each stage needs evidence of its own. What other runs showed
(parity, replay) counts from the last demotion on, an A/A run always: it is about noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lucky_transport_migration.evidence.record import Evidence, read_folder
from lucky_transport_migration.stages.journal import Journal

__all__ = ["recent_evidence"]


def recent_evidence(folder: Path) -> Iterator[Evidence]:
    """Yield what counts of the evidence in `folder`, by the journal there. Raises ConfigError as `read_folder`."""
    moved: dict[str, str] = {}
    demoted: dict[str, str] = {}
    for entry in Journal(folder).entries():
        moved[entry.method] = entry.moment
        if entry.event == "demoted":
            demoted[entry.method] = entry.moment
    for one in read_folder(folder):
        since = moved if one.kind == "live" else demoted
        if one.kind == "aa" or one.at >= since.get(one.method, ""):
            yield one
