"""Reads a recording.

A recording of a process that was killed ends where its last whole line does.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import Header, RecordedCall, Step, header_of, read_entry

__all__ = ["Recording"]


class Recording:
    """The recording in a file; raises ConfigError for a file that is none, OSError for one that cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._lines() as file:
            self.header: Header = header_of(next(_whole_lines(file), b""), str(path))

    def entries(self) -> Iterator[RecordedCall | Step]:
        """Yield what was recorded, in its order; raises ConfigError for a line that is no entry."""
        with self._lines() as file:
            lines = enumerate(_whole_lines(file), 1)
            next(lines, None)
            for number, line in lines:
                try:
                    yield read_entry(line)
                except (ValueError, TypeError) as error:
                    raise ConfigError(f"{self.path}: line {number}: {error}", hint="record it anew") from error

    def _lines(self) -> IO[bytes]:
        opened: Any = gzip.open if self.path.suffix == ".gz" else open
        return opened(self.path, "rb")


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    try:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield line
    except (EOFError, zlib.error, gzip.BadGzipFile):  # torn within a compressed piece
        return
