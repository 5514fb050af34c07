"""What moved a method besides the file of stages: demotions, and the promotions that end them.

    {"v": 1, "at": "2026-01-01T00:00:00.000Z", "event": "demoted", "method": "/hazel.rpc.SceneService/GetEntity",
     "from": "canary 10%", "to": "shadow", "why": "item 0 differs at entity.name", "cool_down_s": 300.0}
    {"v": 1, "at": "...", "event": "promoted", "method": "...", "from": "shadow", "to": "canary 1%", "why": "..."}

A demoted method is at `to`, whatever the file of stages says, until it is promoted again. A line is written by one
append, so that any number of processes may write. Of two demotions the lower one counts, in
whatever order processes wrote them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lucky_transport.nesting import parse_json
from lucky_transport_migration.jsonl import append_once, moment, read_entries
from lucky_transport_migration.stages.stage import Placement

FILE_NAME = "demotions.jsonl"

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. at: seconds since 1970. event: "demoted" or "promoted". before, to: placements. why: for a person."""

    at: float
    event: str
    method: str
    before: Placement
    to: Placement
    why: str = ""
    cool_down_s: float = 0.0

    @property
    def moment(self) -> str:
        """When it was, as evidence spells it, so that texts sort like times."""
        return moment(self.at)

    def line(self) -> str:
        """Return the entry as JSON, without a line break."""
        plain = {"v": _VERSION, "at": self.moment, "event": self.event, "method": self.method}
        plain |= {"from": str(self.before), "to": str(self.to), "why": self.why}
        return json.dumps(plain | ({"cool_down_s": self.cool_down_s} if self.event == "demoted" else {}))

    @classmethod
    def read(cls, line: str) -> Entry:
        """Return the entry of a line; raises ValueError, KeyError or TypeError for one that is none of this version."""
        plain = parse_json(line)
        if plain["v"] != _VERSION or plain["event"] not in ("demoted", "promoted"):
            raise ValueError(f"neither demoted nor promoted: {line!r}")
        at = datetime.fromisoformat(plain["at"]).timestamp()
        before, to = Placement.parse(plain["from"]), Placement.parse(plain["to"])
        why, cool_down_s = str(plain["why"]), float(plain.get("cool_down_s", 0))
        return cls(at, plain["event"], str(plain["method"]), before, to, why, cool_down_s)


@dataclass(frozen=True, slots=True)
class Demotion:
    """Where a method was put, why, and until when (seconds since 1970) it may not be promoted."""

    method: str
    to: Placement
    why: str
    cool_until: float

    def cooling_s(self, now: float | None = None) -> float:
        """Return how many seconds of the cool-down are left, 0 after it."""
        return max(0.0, self.cool_until - (time.time() if now is None else now))


class Journal:
    """The journal in the folder of evidence; neither needs to exist before the first entry."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def demote(self, method: str, before: Placement, to: Placement, why: str, cool_down_s: float = 300.0) -> Entry:
        """Put a method, by its full name, at `to`; raises OSError when that cannot be written."""
        return self.append(Entry(time.time(), "demoted", method, before, to, why, cool_down_s))

    def promote(self, method: str, before: Placement, to: Placement, why: str = "") -> Entry:
        """End what demotions said of a method; raises OSError when that cannot be written."""
        return self.append(Entry(time.time(), "promoted", method, before, to, why))

    def append(self, entry: Entry) -> Entry:
        """Write an entry and return it; raises OSError when it cannot be written."""
        append_once(self.path, entry.line().encode() + b"\n")
        return entry

    def entries(self) -> Iterator[Entry]:
        """Yield what can be read, in the order it was written; nothing when there is no journal.

        Raises ConfigError for a journal that others may write.
        """
        with contextlib.suppress(OSError):
            for _, entry in read_entries(self.path, lambda line: Entry.read(line.decode(errors="replace"))):
                if entry is not None:  # None: of a newer version, or torn
                    yield entry

    def demotions(self) -> Mapping[str, Demotion]:
        """Return the demotions in force, by method."""
        found: dict[str, Demotion] = {}
        for entry in self.entries():
            earlier = found.pop(entry.method, None)
            if entry.event == "demoted":
                to, until = entry.to, entry.at + entry.cool_down_s
                if earlier is not None:
                    to, until = min(to, earlier.to), max(until, earlier.cool_until)
                found[entry.method] = Demotion(entry.method, to, entry.why, until)
        return found
