"""Evidence in a folder: one file for each process, one line for each call; beside them what the processes are.

A folder that cannot be written harms no call: the evidence is lost, and that is logged once until
it works again. A file has a limit: beyond it only what differed or failed is written, so that mismatches are never too
few.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lucky_transport_migration.evidence.programs import describe_process
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, LOOKS, Evidence
from lucky_transport_migration.jsonl import append, open_to_append

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
        size = append(self._descriptor, text)
        if size > self._largest and not self._is_full:
            self._is_full = True
            self._say(f"{path} has {size:,} bytes: from here on it gets only what differs or fails")

    def _open(self, path: Path) -> None:
        self.close()
        if not any(path.parent.glob("calls-*.jsonl")):  # nobody has looked at anything yet
            os.close(open_to_append(path.parent / LOOKS))
        self._descriptor, self._path = open_to_append(path), path
        describe_process(path.parent)
