"""Reads a recording.

A recording of a process that was killed may end in the middle of an entry: what is whole before it is read, and `torn`
says so. Other damage is an error that names its place; where bytes are missing from a compressed piece, its end is not
found, and the recording ends there. A file that was cut exactly between two entries is like one of a shorter run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import Header, RecordedCall, Step, header_of, read_entry

__all__ = ["Recording"]

_CHUNK = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS


class Recording:
    """The recording in a file; raises ConfigError for a file that is none, OSError for one that cannot be read.

    torn: how the file ends where that is in the middle of an entry, known once `entries` has come to the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self._line = 0
        self.header: Header = header_of(next(self._lines(), b""), str(path))

    def entries(self) -> Iterator[RecordedCall | Step]:
        """Yield what was recorded, in its order; raises ConfigError for a line that is no entry, and for damage."""
        lines = enumerate(self._lines(), 1)
        next(lines, None)
        for number, line in lines:
            self._line = number
            try:
                yield read_entry(line)
            except (ValueError, TypeError) as error:
                raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> ConfigError:
        """Return an error that names the line of the last entry."""
        return ConfigError(f"{self.path}: line {self._line}: {why}", hint="record it anew")

    def _lines(self) -> Iterator[bytes]:
        """Yield the whole lines, and say in `torn` what comes after them."""
        self.torn, parts, count = "", list[bytes](), 0
        with self.path.open("rb") as file:
            pieces = self._unpacked(file) if self.path.suffix == ".gz" else iter(lambda: file.read(_CHUNK), b"")
            for piece in pieces:
                more, *ends = piece.split(b"\n")
                parts.append(more)
                for end in ends:
                    yield b"".join(parts)
                    parts = [end]
                count += len(ends)
        if self.torn or any(parts):
            self.torn = f"the recording ends in the middle of an entry; {max(count - 1, 0):,} were read"

    def _unpacked(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield what a row of compressed pieces holds, each once its checksum is known; the last one may be torn."""
        unpack, start, at, piece = None, 0, 0, b""
        while data := file.read(_CHUNK):
            while data:
                if unpack is None:
                    unpack, start = zlib.decompressobj(_GZIP), at
                try:
                    piece += unpack.decompress(data)
                except zlib.error as error:
                    text = f"{self.path} is damaged in the compressed piece that begins at byte {start:,}: {error}"
                    raise ConfigError(text, hint="record it anew") from error
                at += len(data) - len(unpack.unused_data)
                data = unpack.unused_data
                if unpack.eof:
                    yield piece
                    unpack, piece = None, b""
        if unpack is not None:
            self.torn = "in a piece"
            yield piece
