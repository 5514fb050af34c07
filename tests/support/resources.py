"""What this process, or another one, holds: descriptors, threads, mapped memory, files in shared memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from lucky_transport.deadline import Deadline
from lucky_transport.shm.segment_files import DIRECTORY

__all__ = ["Resources", "measure", "released"]

_SLEEP_S = 0.02


@dataclass(frozen=True, slots=True)
class Resources:
    """Counts. mappings: of shared memory. files: in /dev/shm whose name begins as asked."""

    descriptors: int
    threads: int
    mappings: int
    files: int

    def __str__(self) -> str:
        return f"{self.descriptors} descriptors, {self.threads} threads, {self.mappings} mappings, {self.files} files"

    def peak(self, other: Resources) -> Resources:
        """Return the larger of each."""
        return Resources(
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
            max(self.mappings, other.mappings),
            max(self.files, other.files),
        )

    def exceeds(self, other: Resources) -> bool:
        """True when any count is larger than the other's."""
        return self.peak(other) != other


def measure(prefix: str, pid: int | None = None) -> Resources:
    """Count what process `pid` (default: this one) holds, and the files of shared memory called `prefix...`."""
    process = Path("/proc") / ("self" if pid is None else str(pid))
    names = [_target(process / "fd" / number) for number in os.listdir(process / "fd")]
    maps = (process / "maps").read_text().splitlines()
    return Resources(
        len([name for name in names if name]),
        len(os.listdir(process / "task")),
        len([line for line in maps if " /dev/shm/" in line or " /memfd:" in line]),
        len(list(DIRECTORY.glob(f"{prefix}*"))),
    )


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the directory that was listed
        return ""


def released(before: Resources, prefix: str, *, pid: int | None = None, timeout_s: float = 10.0) -> Resources:
    """Return what is held once it is no more than `before`, or at the timeout: peers and threads end a moment later."""
    deadline = Deadline(timeout_s)
    while (now := measure(prefix, pid)).exceeds(before) and not deadline.expired:
        time.sleep(_SLEEP_S)
    return now
