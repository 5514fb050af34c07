"""What every comparison finds: a `Difference`, and as a `LocatedDifference` whose it is and where in a run; and
values as JSON can carry them and a line can show them.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import printable

_LONGEST, _KEPT = 300, 260  # with what is said of the rest, a text that was cut is no longer than one that was not
_BEFORE = 60


def shown(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values as JSON values: of long ones the part that differs, code points of texts that print alike."""
    x, y = _plain(left), _plain(right)
    if isinstance(x, str) and isinstance(y, str):
        same = next((at for at, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
        start = max(same - _BEFORE, 0) if max(len(x), len(y)) > _LONGEST else 0
        lead = f"... from character {start:,}: " if start else ""
        ends = (_spelt(x[same:]), _spelt(y[same:])) if _printed(x) == _printed(y) else (x[same:], y[same:])
        x, y = (f"{lead}{text[start:same]}{end}" for text, end in zip((x, y), ends, strict=True))
    x, y = (short(one) if isinstance(one, str) else one for one in (x, y))
    return x, y


def error_text(error: BaseException) -> str:
    """Return an error as the text that is compared and reported: its class and what it says."""
    return f"{type(error).__name__}: {error}"


def short(text: str) -> str:
    """Return the text, of a long one its beginning and how long it is."""
    return text if len(text) <= _LONGEST else f"{text[:_KEPT]} ... ({len(text):,} characters)"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _printed(text: str) -> str:
    """Return what a reader sees of a text: not how an accent is composed, which space it is, nor what has no width."""
    return "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) != "Cf")


def _spelt(text: str) -> str:
    return "".join(one if one.isascii() else f"<U+{ord(one):04X}>" for one in text)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two answers differ, and what each has there.

    aspect: "code", "details", "headers", "trailing", "item", "order", "count", or "error" of a move that raised. where:
    the path of a value or the name of an array, "" for the answer itself. env, index: the element of an array, by the
    env's row and the position in it; None and () where it is no single element's.
    """

    aspect: str
    where: str
    left: Any
    right: Any
    env: int | None = None
    index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AtMove:
    """An exchange of a run. mode: how the run resets, or what compares it. exchange: its number as the frame's `seq`
    counts it, from 1, steps and resets alike; 0 = before the first. event: "step", "reset", "misuse" after it, "spec".
    """

    mode: str
    exchange: int
    event: str

    def sentence(self, found: Difference, values: str) -> str:
        """Return what differs here as one sentence."""
        index = list(found.index) if found.index else ""
        is_part = found.where.endswith("]")  # spelled as its element would be reached
        name = f"{found.where}{index}" if is_part else found.where
        place = "" if found.env is None else f" of env {found.env}"
        place += f" at {index}" if index and not is_part else ""
        return f"{name}{place} differs in exchange {self.exchange} ({self.event}, {self.mode}): {values}"

    def plain(self, found: Difference, values: dict[str, Any]) -> dict[str, Any]:
        """Return what differs here as JSON values."""
        run = {"mode": self.mode, "exchange": self.exchange, "event": self.event}
        return {**run, "field": found.where, "env": found.env, "index": list(found.index), "values": values}


@dataclass(frozen=True, slots=True)
class AtCall:
    """A typed call of a proof, which numbers its calls from 0. what: its kind of request; request: as text."""

    method: str
    call: int
    what: str
    request: str

    def sentence(self, found: Difference, values: str) -> str:
        """Return what differs here as one sentence."""
        where = f"{found.where} of {self.method} differs ({found.aspect}) in call {self.call} ({self.what})"
        return f"{where}: {values}; {self.request}"

    def plain(self, found: Difference, values: dict[str, Any]) -> dict[str, Any]:
        """Return what differs here as JSON values."""
        call = {"method": self.method, "call": self.call, "what": self.what}
        return {**call, "aspect": found.aspect, "path": found.where, "values": values, "request": self.request}


@dataclass(frozen=True, slots=True)
class LocatedDifference:
    """A difference between what the two sides `names` answered at one place of a run."""

    difference: Difference
    names: tuple[str, str]
    place: AtMove | AtCall

    @property
    def values(self) -> dict[str, Any]:
        """What each side has there, as JSON values."""
        return dict(zip(self.names, shown(self.difference.left, self.difference.right), strict=True))

    def sentence(self) -> str:
        """Return it as one sentence, on one line."""
        values = ", ".join(f"{name} {value!r}" for name, value in self.values.items())
        return printable(self.place.sentence(self.difference, values))

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.place.plain(self.difference, self.values)
