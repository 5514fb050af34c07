"""What evidence there is for a method's next promotion.

What was seen live counts from the method's last move on: each stage needs evidence of its own. What other runs showed
(parity, replay) counts from the last demotion on, an A/A run for some days: it is about the noise of a machine.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from lucky_transport_migration.evidence.record import GAP, Evidence, read_folder
from lucky_transport_migration.evidence.tally import COMPARED
from lucky_transport_migration.jsonl import Damage, moment
from lucky_transport_migration.stages.journal import Journal

#: For so long an A/A run tells what noise is, where nothing else is asked for.
AA_DAYS = 7


def recent_evidence(
    folder: Path, aa_days: int = AA_DAYS, damage: Damage | None = None, compared: dict[str, bool] | None = None
) -> Iterator[Evidence]:
    """Yield what counts of the evidence in `folder`, by the journal there, with A/A pairs of the last `aa_days`.

    damage: as of `read_folder`, whose ConfigError it raises. compared: gets each method that was called at any time,
    and whether two answers were compared.
    """
    since = counted_since(folder, aa_days)
    for one in read_folder(folder, damage):
        if compared is not None and one.kind != "aa":
            compared[one.method] = compared.get(one.method, False) or one.verdict in COMPARED
        if one.at >= since(one.kind, one.method):
            yield one


def counted_since(folder: Path, aa_days: int = AA_DAYS, *, to_show: bool = False) -> Callable[[str, str], str]:
    """Return what tells, by kind and method, from which moment on evidence counts.

    to_show: for a page, which also shows what led to a demotion in force. Raises ConfigError for a journal that others
    may write.
    """
    aa_since = moment(time.time() - aa_days * 86_400)
    moved, demoted, over = dict[str, str](), dict[str, str](), dict[str, str]()
    for entry in Journal(folder).entries():
        moved[entry.method] = entry.moment
        if entry.event == "demoted":
            demoted[entry.method] = entry.moment
        else:
            over[entry.method] = demoted.get(entry.method, "")
    of_live, of_others = (over, over) if to_show else (moved, demoted)
    return lambda kind, method: aa_since if kind == "aa" else (of_live if kind == "live" else of_others).get(method, "")


def count_evidence(folder: Path, damage: Damage) -> dict[str, Counter[str]]:
    """Return of each method that was called how many calls that count for its next move had which verdict.

    damage: gets the lines that are no evidence. Raises ConfigError as `recent_evidence`.
    """
    called, seen = dict[str, bool](), defaultdict[str, Counter[str]](Counter)
    for one in recent_evidence(folder, damage=damage, compared=called):
        seen[one.method][one.verdict] += one.stage != GAP
    return {name: seen[name] for name in {**called, **seen}}
