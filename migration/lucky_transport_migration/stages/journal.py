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
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from lucky_transport_migration.jsonl import VERSION, append_once, moment, one_of, read_entries
from lucky_transport_migration.stages.stage import Placement

FILE_NAME = "demotions.jsonl"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. at: seconds since 1970. event: "demoted" or "promoted". before, to: placements. why: for a person."""

    at: Annotated[float, _seconds]
    event: Annotated[str, one_of("demoted", "promoted")]
    method: str
    before: Annotated[Placement, Placement.parse] = field(metadata={"key": "from"})
    to: Annotated[Placement, Placement.parse]
    why: str = ""
    cool_down_s: float = 0.0

    @property
    def moment(self) -> str:
        """When it was, as evidence spells it, so that texts sort like times."""
        return moment(self.at)

    def line(self) -> str:
        """Return the entry as JSON, without a line break."""
        plain = {"v": VERSION, "at": self.moment, "event": self.event, "method": self.method}
        plain |= {"from": str(self.before), "to": str(self.to), "why": self.why}
        return json.dumps(plain | ({"cool_down_s": self.cool_down_s} if self.event == "demoted" else {}))


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

    def entries(self, **options: Any) -> Iterator[Entry]:
        """Yield the entries in the order they were written, but for torn ones; nothing when there is no journal.

        options: those of `read_entries`. Raises ConfigError as that.
        """
        with contextlib.suppress(OSError):
            for _, entry in read_entries(self.path, Entry, **options):
                if entry is not None:
                    yield entry

    def demotions(self, **options: Any) -> Mapping[str, Demotion]:
        """Return the demotions in force, by method; options and errors as of `entries`."""
        found: dict[str, Demotion] = {}
        for entry in self.entries(**options):
            earlier = found.pop(entry.method, None)
            if entry.event == "demoted":
                to, until = entry.to, entry.at + entry.cool_down_s
                if earlier is not None:
                    to, until = min(to, earlier.to), max(until, earlier.cool_until)
                found[entry.method] = Demotion(entry.method, to, entry.why, until)
        return found
