"""How often the gate was asked: each look spends a share of the error that all looks have together.

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "method": "/hazel.rpc.SceneService/GetEntity", "calls": 1200, "aa": 0}

A look is a judgement from which a promotion could come. It is a line in the folder of evidence, so looks of several
processes add up and a restart forgets none; they count from a method's last move on. What was looked at before is no
new look. Where the file is missing or damaged, a look after every 100 calls is assumed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lucky_transport.errors import ConfigError
from lucky_transport.nesting import parse_json
from lucky_transport_migration.evidence.record import LOOKS
from lucky_transport_migration.jsonl import append, moment, open_to_append, read_lines
from lucky_transport_migration.stages.journal import Journal

__all__ = ["Looks", "Seen"]

#: What was there to look at: calls, and pairs of an A/A run.
Seen = tuple[int, int]

_ASSUMED_EVERY = 100
#: In place of a method: what was looked at before that line is not known.
_UNKNOWN = "*"


class Looks:
    """The looks at the evidence in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LOOKS

    def take(self, seen: Mapping[str, Seen], counts: Callable[[str, int], bool]) -> dict[str, int]:
        """Return the number of this look at each method, from 1.

        It is written down where `counts(method, number)` says that a promotion could come of it. Raises ConfigError
        where that cannot be done.
        """
        try:
            numbers = self._numbers(seen)
            made = {name: seen[name] for name, (number, is_new) in numbers.items() if is_new and counts(name, number)}
            if made:
                self._append(made)
                numbers = self._numbers(seen)
        except OSError as error:
            hint = "each look has to be counted: let the gate read and write the file"
            raise ConfigError(f"{self._path}: {error}", hint=hint) from error
        return {name: number for name, (number, _) in numbers.items()}

    def _numbers(self, seen: Mapping[str, Seen]) -> dict[str, tuple[int, bool]]:
        """Return of each method the number that this look at it has or would have, and whether it is a new one."""
        since = {entry.method: entry.moment for entry in Journal(self._folder).entries()}
        looks: dict[str, dict[Seen, None]] = {name: {} for name in seen}
        unknown_at = "" if self._path.exists() else _now()
        for line in read_lines(self._path) if self._path.exists() else ():
            try:
                plain = parse_json(line)
                at, method, found = str(plain["at"]), plain["method"], (int(plain["calls"]), int(plain["aa"]))
            except (ValueError, KeyError, TypeError):
                unknown_at = _now()
                continue
            if method == _UNKNOWN:
                unknown_at = max(unknown_at, at)
            elif method in looks and at > since.get(method, ""):
                looks[method][found] = None
        numbers: dict[str, tuple[int, bool]] = {}
        for name, one in seen.items():
            is_new, before = one not in looks[name], list(looks[name])
            number = len(before) + 1 if is_new else before.index(one) + 1
            assumed = 1 + one[0] // _ASSUMED_EVERY if unknown_at and unknown_at >= since.get(name, "") else 1
            numbers[name] = max(number, assumed), is_new
        return numbers

    def _append(self, made: Mapping[str, Seen]) -> None:
        rows = [{"method": name, "calls": calls, "aa": aa} for name, (calls, aa) in made.items()]
        if not self._path.exists():
            rows.insert(0, {"method": _UNKNOWN, "calls": 0, "aa": 0})
        lines = [json.dumps({"v": 1, "at": _now(), **row}) + "\n" for row in rows]
        descriptor = open_to_append(self._path)
        try:
            append(descriptor, "".join(lines).encode())
        finally:
            os.close(descriptor)


def _now() -> str:
    return moment(time.time())
