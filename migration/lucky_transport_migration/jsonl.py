"""Files of JSON lines that are appended to, by one process or by several, and survive what kills their writers.

A line that a killed process tore is no entry, and hides none; `Damage` counts such lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from lucky_transport.errors import ConfigError, plural
from lucky_transport.found_file import open_found, refusal

__all__ = ["Damage", "append", "append_once", "moment", "open_to_append", "read_entries"]

_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class Damage:
    """How many lines are no entries and do not count. file, line: of the first, "" and 0 where there is none."""

    lines: int = 0
    file: str = ""
    line: int = 0

    def add(self, other: Damage) -> None:
        """Count what was found behind this."""
        if not self.lines:
            self.file, self.line = other.file, other.line
        self.lines += other.lines

    @property
    def sentence(self) -> str:
        """What does not count, and where it begins; "" where all lines are whole."""
        if not self.lines:
            return ""
        verb = "is" if self.lines == 1 else "are"
        return (
            f"{plural(self.lines, 'damaged line')} of evidence {verb} not counted; first: {self.file}, line {self.line}"
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def open_to_append(path: Path) -> int:
    """Return a descriptor of the file, made with its folder where it is not there.

    Raises OSError, also for a file that others may write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    if refused := refusal(path, descriptor):
        os.close(descriptor)
        raise PermissionError(str(refused))
    return descriptor


def read_entries(path: Path, read: Callable[[bytes], _Entry], start: int = 0) -> Iterator[tuple[bytes, _Entry | None]]:
    """Yield the lines of the file from byte `start` on, each as `read` reads it: None for one that is no entry.

    Raises OSError, and ConfigError for a file that others may write and where `read` does.
    """
    with open_found(path) as file:
        if refused := refusal(path, file.fileno()):
            raise refused
        file.seek(start)
        for line in file:
            try:
                entry = read(line)
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}", hint=error.hint) from error
            except (ValueError, KeyError, TypeError):
                entry = None
            yield line, entry


def append(descriptor: int, lines: bytes) -> int:
    """Append whole lines in one write and return the file's size then. Raises OSError where not all of it found room.

    What a killed process or a full disk tore is closed by a line end first, so that it hides no other line.
    """
    size = os.fstat(descriptor).st_size
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    lines = b"\n" * is_torn + lines
    if os.write(descriptor, lines) < len(lines):
        raise OSError("no space left")
    return size + len(lines)


def append_once(path: Path, lines: bytes) -> None:
    """Append whole lines to the file, which is not kept open. Raises OSError as `open_to_append` and `append` do."""
    descriptor = open_to_append(path)
    try:
        append(descriptor, lines)
    finally:
        os.close(descriptor)


def moment(at: float) -> str:
    """Return seconds since 1970 as lines have them, in UTC: "2026-01-01T00:00:00.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
