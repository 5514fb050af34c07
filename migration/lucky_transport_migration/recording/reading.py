"""Reads a recording.

A recording of a process that was killed may end in the middle of an entry: what is whole before it is read, and `torn`
says so. Other damage is an error that names its place; where bytes are missing from a compressed piece, its end is not
found, and the recording ends there. A file that was cut exactly between two entries is like one of a shorter run.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import Header, RecordedCall, Step, header_of, read_entry


class Recording:
    """The recording in a file; raises ConfigError for a file that is none, OSError for one that cannot be read.

    torn: how the file ends where that is in the middle of an entry, known once `entries` has come to the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self._line = 1
        self.header: Header = header_of(next(self._lines(), b""), str(path))

    def entries(self) -> Iterator[RecordedCall | Step]:
        """Yield what was recorded, in its order; raises ConfigError for a line that is no entry, and for damage."""
        self.torn, self._line, lines = "", 1, self._lines()
        next(lines, None)
        for self._line, line in enumerate(lines, 2):
            if not line.endswith(b"\n"):
                self.torn = f"the recording ends in the middle of an entry; {self._line - 2:,} were read"
                return
            try:
                yield read_entry(line)
            except (ValueError, TypeError) as error:
                raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> ConfigError:
        """Return an error that names the line of the last entry."""
        return ConfigError(f"{self.path}: line {self._line}: {why}", hint="record it anew")

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines; the last one has no line end where the file ends in its middle."""
        opened = gzip.open if self.path.suffix == ".gz" else open
        with cast("IO[bytes]", opened(self.path, "rb")) as file:
            try:
                yield from file
            except EOFError:  # of a compressed piece
                yield b""
            except (gzip.BadGzipFile, zlib.error) as error:
                raise self.damaged(f"it is damaged behind this line: {error}") from error
