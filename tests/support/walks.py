"""Walks through the code that a page shows: its hops, and whether they are entered in that order."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
LONGEST = 8
NATIVE = "lucky_transport._native"


@dataclass(frozen=True)
class Hop:
    """A function that a walk names."""

    file: str
    function: str

    def is_entered_by(self, event: Event) -> bool:
        """True for this function, and for one that it has made."""
        made = event.function.startswith(f"{self.function}.<locals>.")
        is_there = event.file == NATIVE if self.file.startswith("_native/") else event.file.endswith(f"/{self.file}")
        return is_there and (made or event.function == self.function)


@dataclass(frozen=True)
class Event:
    """A function was entered, or left."""

    thread: int
    file: str
    function: str
    entered: bool


@dataclass
class Recorder:
    """What the threads of this process enter and leave, while they are watched."""

    events: list[Event] = field(default_factory=list[Event])

    def hook(self, frame: FrameType, event: str, what: Any) -> None:
        """Note one event, as `sys.setprofile` tells it."""
        entered = event in ("call", "c_call")
        if event in ("call", "return"):
            file, function = frame.f_code.co_filename, frame.f_code.co_qualname
        else:
            owner = type(getattr(what, "__self__", None))
            file, function = str(owner.__module__), f"{owner.__name__}.{what.__name__}"
        self.events.append(Event(threading.get_ident(), file, function, entered))

    def watched(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls an object of the native module, which no profiler is told of."""

        def call(*given: Any) -> Any:
            self.events.append(Event(threading.get_ident(), NATIVE, f"{type(made).__name__}.__call__", True))
            return made(*given)

        return call

    def missing(self, walk: Sequence[Hop], do: Callable[[], object]) -> Hop | None:
        """Return the first hop of the walk that `do` does not enter after the one before it, None when there is none.

        A hop in which another thread waits for the one before it has been entered already.
        """
        at, thread = len(self.events), threading.get_ident()
        sys.setprofile(self.hook)
        try:
            do()
        finally:
            sys.setprofile(None)
        events = tuple(self.events)
        for hop in walk:
            if self._waits(hop, events[:at], thread):
                continue
            later = (number for number in range(at, len(events)) if events[number].entered)
            found = next((number for number in later if hop.is_entered_by(events[number])), None)
            if found is None:
                return hop
            at, thread = found + 1, events[found].thread
        return None

    @staticmethod
    def _waits(hop: Hop, events: Sequence[Event], thread: int) -> bool:
        """True when, after these events, another thread than this one is in the function."""
        depth: Counter[int] = Counter()
        for event in events:
            if event.thread != thread and hop.is_entered_by(event):
                depth[event.thread] += 1 if event.entered else -1
        return any(count > 0 for count in depth.values())


def walk_of(page: Path, heading: str) -> list[Hop]:
    """Return the hops that a page lists under a heading."""
    section = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\d+\. (.*)$", section, re.MULTILINE)
    hops = [Hop(*found[0]) for line in lines if (found := re.findall(r"^`([\w./]+)` `([\w.]+)`", line))]
    assert len(hops) == len(lines), "each hop begins with a file and a function"
    return hops


def check_walk(page: Path, walk: Sequence[Hop]) -> None:
    """Fail unless the walk is short, and its files, which it names from the page's folder, have what it names."""
    assert 4 <= len(walk) <= LONGEST
    for hop in walk:
        path = next(path for path in (page.parent / hop.file, ROOT / hop.file) if path.is_file())
        names = [name for name in hop.function.split(".") if name != "__call__"]
        assert all(name in path.read_text(encoding="utf-8") for name in names), hop


@contextmanager
def watched_threads(recorder: Recorder) -> Generator[None]:
    threading.setprofile(recorder.hook)
    try:
        yield
    finally:
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
