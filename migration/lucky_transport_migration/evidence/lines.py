"""Evidence in a folder: one file for each process, one line for each call.

A line is appended whole with others in one write; what a killed process or a full disk tore is closed by a line end
before the next one. A folder that cannot be written harms no call: the evidence is lost, and that is logged once until
it works again. A file has a limit: beyond it only what differed or failed is written, so that mismatches are never too
few.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, Evidence

__all__ = ["Lines"]

_LARGEST = 256 << 20


class Lines:
    """What this process writes; `say` is told what a user should know. largest: the file's limit in bytes."""

    def __init__(self, say: Callable[[str], None], largest: int = _LARGEST) -> None:
        self._say = say
        self._largest = largest
        self._is_told = self._is_full = False
        self._descriptor = -1
        self._path = Path()

    def write(self, folder: Path, evidence: Sequence[Evidence]) -> None:
        """Append to the file of this process in `folder`, which is made when it is not there."""
        if self._is_full:
            evidence = [one for one in evidence if one.verdict in (DIFFERENT, FAILED)]
        if not evidence:
            return
        try:
            self._append(folder, "".join(one.write() for one in evidence).encode())
            self._is_told = False
        except OSError as error:
            if not self._is_told:
                self._say(f"evidence is lost: {error}")
            self._is_told = True

    def close(self) -> None:
        """Close the file; a later `write` opens it again. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, folder: Path, text: bytes) -> None:
        path = folder / f"calls-{os.getpid()}.jsonl"
        if path != self._path or self._descriptor < 0 or not os.fstat(self._descriptor).st_nlink:
            self._open(path)
        size = os.fstat(self._descriptor).st_size
        torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        text = b"\n" * torn + text
        if os.write(self._descriptor, text) < len(text):
            raise OSError(f"{path}: no space left")
        if size + len(text) > self._largest and not self._is_full:
            self._is_full = True
            self._say(f"{path} has {size + len(text):,} bytes: from here on it gets only what differs or fails")

    def _open(self, path: Path) -> None:
        self.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor, self._path = os.open(path, flags, 0o644), path
