"""What evidence there is for a method's next promotion.

What was seen live counts from the method's last move on: each stage needs evidence of its own. What other runs showed
(parity, replay) counts from the last demotion on, an A/A run for some days: it is about the noise of a machine.

`EvidenceCounts` looks again and again. A look reads what was added since the last one; a file that shrank, was rotated
or replaced is read anew. Of each call its moment is kept, so that a move of its method changes what counts without
another look at the files.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lucky_transport_migration.evidence.record import Evidence, read_folder
from lucky_transport_migration.evidence.tally import COMPARED
from lucky_transport_migration.jsonl import Damage, moment, read_entries
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


@dataclass(slots=True)
class _CountedFile:
    """inode: of the file. last: the last whole line that was read, end: the offset behind it, lines: how many there are
    up to there, damage: what of them does not count, torn: what comes behind them does not. moments: ascending, by
    method, kind and verdict.
    """

    inode: int
    last: bytes = b""
    end: int = 0
    lines: int = 0
    damage: Damage = field(default_factory=Damage)
    torn: Damage = field(default_factory=Damage)
    moments: defaultdict[tuple[str, str, str], array[int]] = field(
        default_factory=partial(defaultdict[tuple[str, str, str], "array[int]"], partial(array, "q"))
    )


class EvidenceCounts:
    """Counts by method and verdict. damage: the lines that are no evidence, as of the last look."""

    def __init__(self) -> None:
        self.damage = Damage()
        self._files: dict[Path, _CountedFile] = {}

    def look(self, folder: Path) -> dict[str, Counter[str]]:
        """Return how many calls that count for the next move of each method had which verdict.

        Raises ConfigError as `recent_evidence`.
        """
        since = counted_since(folder)
        self._files = {path: _counted(path, self._files.get(path)) for path in sorted(folder.glob("calls-*.jsonl"))}
        seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.damage = Damage()
        for file in self._files.values():
            self.damage.add(file.damage)
            self.damage.add(file.torn)
            for (method, kind, verdict), moments in file.moments.items():
                if calls := len(moments) - bisect_left(moments, _rank(since(kind, method))):
                    seen[method][verdict] += calls
        return seen

    @property
    def methods(self) -> set[str]:
        """The full names of the methods that were seen as of the last look."""
        return {method for file in self._files.values() for method, _, _ in file.moments}


def _rank(moment: str) -> int:
    """Return a moment, as lines have it, as a number of the same order: its digits down to the millisecond."""
    return int("".join(filter(str.isdecimal, moment))[:17].ljust(17, "0"))


def _counted(path: Path, file: _CountedFile | None) -> _CountedFile:
    """Return the counts of a file, from where `file` ends on if that is still there."""
    inode = path.stat().st_ino
    if file is None or file.inode != inode:
        file = _CountedFile(inode)
    lines = read_entries(path, Evidence, file.end - len(file.last), max(file.lines, 1))
    if file.end and next(lines, (b"",))[0] != file.last:
        return _counted(path, None)
    file.torn = Damage()
    for line, one in lines:
        damage = Damage() if one is not None else Damage(1, str(path), file.lines + 1)
        if not line.endswith(b"\n"):
            file.torn = damage  # it is being written, or a killed process tore it
            break
        if one is not None:
            insort(file.moments[one.method, one.kind, one.verdict], _rank(one.at))
        file.damage.add(damage)
        file.last, file.end, file.lines = line, file.end + len(line), file.lines + 1
    return file
