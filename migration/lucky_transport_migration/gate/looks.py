"""How often the gate was asked: each look spends a share of the error that all looks have together.

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "method": "/hazel.rpc.SceneService/GetEntity", "seen": [1200, 0]}

A look is a judgement from which a promotion could come. It is a line in the folder of evidence, so looks of several
processes add up and a restart forgets none; they count from a method's last move on. What was looked at before is no
new look. The file begins with the evidence. Where it is missing or damaged, a look after every 100 calls is assumed.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lucky_transport.errors import ConfigError
from lucky_transport_migration.evidence.record import LOOKS
from lucky_transport_migration.jsonl import VERSION, append_once, moment, read_entries
from lucky_transport_migration.stages.journal import Journal

_ASSUMED_EVERY = 100

#: What there was to look at: calls, and pairs of an A/A run.
_Seen = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Look:
    at: str
    method: str
    seen: _Seen


class Looks:
    """The looks at the evidence in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LOOKS

    def take(self, seen: Mapping[str, _Seen], counts: Callable[[str, int], bool]) -> dict[str, int]:
        """Return the number of this look at each method, from 1.

        It is written down where `counts(method, number)` says that a promotion could come of it. Raises ConfigError
        where that cannot be done.
        """
        try:
            if not self._path.exists():
                return {name: _assumed(one) for name, one in seen.items()}
            numbers = self._numbers(seen)
            if made := [name for name, (number, is_new) in numbers.items() if is_new and counts(name, number)]:
                rows = ({"v": VERSION, "at": moment(time.time()), "method": name, "seen": seen[name]} for name in made)
                append_once(self._path, "".join(json.dumps(row) + "\n" for row in rows).encode())
                numbers = self._numbers(seen)  # others may have looked as well
        except OSError as error:
            hint = "each look has to be counted: let the gate read and write the file"
            raise ConfigError(f"{self._path}: {error}", hint=hint) from error
        return {name: number for name, (number, _) in numbers.items()}

    def _numbers(self, seen: Mapping[str, _Seen]) -> dict[str, tuple[int, bool]]:
        """Return of each method the number that this look at it has or would have, and whether it is a new one."""
        since = {entry.method: entry.moment for entry in Journal(self._folder).entries()}
        looks: defaultdict[str, list[_Seen]] = defaultdict(list)
        lines = [look for _, look in read_entries(self._path, _Look)]
        for one in filter(None, lines):
            if one.at > since.get(one.method, "") and one.seen not in looks[one.method]:
                looks[one.method].append(one.seen)
        least = {name: _assumed(one) if None in lines else 1 for name, one in seen.items()}
        numbers = {name: max([*looks[name], one].index(one) + 1, least[name]) for name, one in seen.items()}
        return {name: (numbers[name], one not in looks[name]) for name, one in seen.items()}


def _assumed(seen: _Seen) -> int:
    return 1 + seen[0] // _ASSUMED_EVERY
