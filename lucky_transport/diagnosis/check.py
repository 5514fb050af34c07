"""The result of one check, and the directories that checks read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class CheckStatus(StrEnum):
    """OK: nothing to do. WARN: it works, with the loss that is named. FAIL: something does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the diagnosis: what was looked at, the verdict, what was seen, how to mend it ("" when OK)."""

    name: str
    verdict: CheckStatus
    seen: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.verdict is CheckStatus.OK) == bool(self.remedy):
            raise ValueError(f"check {self.name!r} is {self.verdict} with remedy {self.remedy!r}")


@dataclass(frozen=True, slots=True)
class Roots:
    """The directories that checks read; a test gives its own."""

    shm: Path = Path("/dev/shm")
    proc: Path = Path("/proc")
