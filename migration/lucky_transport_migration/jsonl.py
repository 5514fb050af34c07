"""Files of JSON lines that are appended to, by one process or by several, and survive what kills their writers.

A line that a killed process tore is no JSON object: it is no entry, and hides none; `Damage` counts such lines. An
object says all that this version knows and nothing else, or it is an error that names file, line and key: what is not
known could be what differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from lucky_transport.errors import ConfigError, plural
from lucky_transport.found_file import open_found, refusal
from lucky_transport.nesting import parse_json

_Entry = TypeVar("_Entry")

#: Of the lines: the value of their key "v".
VERSION = 1


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


def _refuse(error: ConfigError) -> None:
    raise error


def read_entries(
    path: Path,
    kind: type[_Entry],
    start: int = 0,
    number: int = 1,
    unknown: Callable[[ConfigError], None] = _refuse,
) -> Iterator[tuple[bytes, _Entry | None]]:
    """Yield the lines of the file from byte `start` on, which begins line `number`, each with its entry.

    None stands for the entry of a line that was torn. unknown: is told of a line that says what this version does not
    know, and passes over it unless it raises. Raises OSError, ConfigError for a file that others may write.
    """
    with open_found(path) as file:
        if refused := refusal(path, file.fileno()):
            raise refused
        file.seek(start)
        for at, line in enumerate(file, number):
            try:
                yield line, entry_of(kind, line)
            except ValueError as error:
                hint = "it is damaged, or of another version: take the line out, or use a folder of its own"
                unknown(ConfigError(f"{path}: line {at}: {error}", hint=hint))
                yield line, None


def entry_of(kind: type[_Entry], line: str | bytes) -> _Entry | None:
    """Return the entry of a line; None where it is no JSON object, as of one that was torn.

    Raises ValueError as `from_plain`, and for another version.
    """
    try:
        plain = parse_json(line)
    except ValueError:
        return None
    if not isinstance(plain, dict):
        return None
    if (version := plain.pop("v", None)) != VERSION:
        raise ValueError(f"version {version!r}, and this reads {VERSION}")
    return from_plain(kind, plain)


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


def from_plain(kind: type[_Entry], plain: Mapping[str, Any]) -> _Entry:
    """Return the dataclass whose fields these JSON values are: lists become tuples, an object the dataclass that its
    field is, and a text what reads the field: `Annotated[int, int]`. A field's metadata may have the key of the line.

    Raises ValueError, which names the key, where one is missing or not known or its value is of another kind.
    """
    (columns, needed), found = _columns(kind), dict[str, Any]()
    for key, value in plain.items():
        if key not in columns:
            raise ValueError(f"{key!r} is no key that this version knows")
        name, readers = columns[key]
        try:
            found[name] = _value(readers, value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    for key in needed:
        if key not in plain:
            raise ValueError(f"it has no {key}")
    return kind(**found)


def one_of(*words: str) -> Callable[[str], str]:
    """Return what reads a text that is one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r:.200} is none of {', '.join(words)}")
        return text

    return read


#: JSON kind of a value -> what reads such a one, None where it stays as it is. Of any value it is None itself.
_Readers = Mapping[type, Callable[[Any], Any] | None] | None


def _value(readers: _Readers, value: Any) -> Any:
    if readers is None:
        return value
    if type(value) not in readers:
        expected = " or ".join(one.__name__ for one in readers)
        raise ValueError(f"{value!r:.200} is no {expected}")
    read = readers[type(value)]
    return value if read is None else read(value)


@cache
def _columns(kind: Any) -> tuple[dict[str, tuple[str, _Readers]], list[str]]:
    """Return of each key the name of its field and what reads its value, and the keys that have to be there."""
    hints = get_type_hints(kind, include_extras=True)
    keys = {row.metadata.get("key", row.name): row for row in fields(kind)}
    needed = [key for key, row in keys.items() if row.default is MISSING and row.default_factory is MISSING]
    return {key: (row.name, _readers(hints[row.name])) for key, row in keys.items()}, needed


def _readers(hint: Any) -> _Readers:
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return None
    if origin is Annotated:
        return {str: inner[1]}
    if origin in (Union, UnionType):
        return {one: read for part in inner for one, read in (_readers(part) or {}).items()}
    if is_dataclass(hint):
        inner_kind: Any = hint
        return {dict: partial(from_plain, inner_kind)}
    if origin is tuple:
        parts = [_readers(one) for one in inner if one is not ...]
        return {list: partial(_tuple, parts, ... in inner)}
    if origin in (dict, Mapping):
        values = _readers(inner[1])
        return {dict: lambda found: {key: _value(values, one) for key, one in found.items()}}
    return {float: None, int: None} if hint is float else {hint: None}


def _tuple(parts: Sequence[_Readers], is_long: bool, value: list[Any]) -> tuple[Any, ...]:
    if is_long:
        return tuple(_value(parts[0], one) for one in value)
    if len(value) != len(parts):
        raise ValueError(f"{value!r:.200} has not {len(parts)} values")
    return tuple(map(_value, parts, value))


def moment(at: float) -> str:
    """Return seconds since 1970 as lines have them, in UTC: "2026-01-01T00:00:00.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
