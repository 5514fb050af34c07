"""Counts of the evidence in a folder, for what looks again and again.

A look reads what was added since the last one. A file that shrank, was rotated or replaced is read anew. Of each call
its moment is kept, so that a move of its method changes what counts without another look at the files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.jsonl import Damage, read_entries
from lucky_transport_migration.stages.evidence_window import counted_since


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
    """See the module. damage: the lines that are no evidence, as of the last look."""

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
