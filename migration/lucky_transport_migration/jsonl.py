"""Files of JSON lines that are appended to, by one process or by several, and survive what kills their writers.

A line that a killed process tore is no entry, and hides none; `Damage` counts such lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from lucky_transport.errors import ConfigError, plural
from lucky_transport.found_file import open_found, refusal

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


def from_plain(kind: type[_Entry], plain: Any, keys: Mapping[str, str] = MappingProxyType({})) -> _Entry:
    """Return the dataclass whose fields these JSON values are: lists become tuples, objects dataclasses where the field
    is one. What a newer writer added is passed over. keys: of fields that have another name in the line.

    Raises ValueError where a field is missing, or is of another kind.
    """
    if not isinstance(plain, dict):
        raise ValueError(f"{plain!r} is no object")
    found: dict[str, Any] = {}
    for name, is_needed, kinds, inner in _fields(kind):
        key = keys.get(name, name) if keys else name
        if key in plain:
            found[name] = value = plain[key]
            if not isinstance(value, kinds):
                raise ValueError(f"{key} is {value!r}")
            if inner and value is not None:
                found[name] = from_plain(inner, value)
            elif isinstance(value, list):
                found[name] = _frozen(value)
        elif is_needed:
            raise ValueError(f"it has no {key}")
    return kind(**found)


@cache
def _fields(kind: Any) -> list[tuple[str, bool, tuple[Any, ...], Any]]:
    """Return of each field its name, whether it has to be there, what it is in JSON, and the dataclass that it is."""
    hints, found = get_type_hints(kind), list[tuple[str, bool, tuple[Any, ...], Any]]()
    for row in fields(kind):
        hint = hints[row.name]
        parts = [get_origin(one) or one for one in (get_args(hint) if type(None) in get_args(hint) else (hint,))]
        inner = next(filter(is_dataclass, parts), None)
        in_json = {float: (float, int), tuple: (list,), Mapping: (dict,), inner: (dict,)}
        kinds = tuple(one for part in parts for one in in_json.get(part, (part,)))
        found.append((row.name, row.default is MISSING and row.default_factory is MISSING, kinds, inner))
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def moment(at: float) -> str:
    """Return seconds since 1970 as lines have them, in UTC: "2026-01-01T00:00:00.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
