"""An A/A run taken for a migration: what the gate says where nothing differs.

Every other pair stands for control and candidate, the others say what noise is, as in a real migration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from lucky_transport_migration.evidence.record import CONTROL, Evidence
from lucky_transport_migration.stages.stage import Stage

__all__ = ["twins_as_candidates"]


def twins_as_candidates(evidence: Iterable[Evidence]) -> Iterator[Evidence]:
    """Yield the A/A pairs of `evidence`; every other one of a method becomes a live call with a candidate."""
    turns: defaultdict[str, Iterator[int]] = defaultdict(count)
    for one in evidence:
        if one.kind != "aa" or one.shadow is None:
            continue
        if next(turns[one.method]) % 2:
            yield one
        else:
            control = replace(one.primary, transport=CONTROL)
            candidate = replace(one.shadow, transport="candidate")
            yield replace(one, kind="live", stage=str(Stage.SHADOW), primary=control, shadow=candidate)
