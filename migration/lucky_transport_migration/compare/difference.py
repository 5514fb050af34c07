"""What every comparison finds: a `Difference`, and as a `LocatedDifference` whose it is and where in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import printable
from lucky_transport_migration.compare.shown import shown


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
