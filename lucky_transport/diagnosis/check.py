"""The outcome of one check, and where checks look.

Rule 1: a check looks and never mends; the only mending there is, is in `shared_memory.remove_stale_segments`.
Rule 2: OK needs no remedy, WARN and FAIL always have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

__all__ = ["Check", "Roots", "Verdict"]


class Verdict(StrEnum):
    """OK: nothing to do. WARN: it works, with the loss that is named. FAIL: something does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the diagnosis: what was looked at, the verdict, what was seen, how to mend it ("" when OK)."""

    name: str
    verdict: Verdict
    seen: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.verdict is Verdict.OK) == bool(self.remedy):
            raise ValueError(f"check {self.name!r} is {self.verdict} with remedy {self.remedy!r}")


@dataclass(frozen=True, slots=True)
class Roots:
    """The directories that checks read; a test gives its own."""

    shm: Path = Path("/dev/shm")
    etc: Path = Path("/etc")
    run: Path = Path("/run")
    var: Path = Path("/var")
    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")
