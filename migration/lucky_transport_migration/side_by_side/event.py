"""One thing a test did with an engine, and what came of it: an exchange of the batch, or a typed call.

An event holds copies: it can be compared long after the transport has moved on. An error is part of the answer; its
class and text are compared like any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import RESET
from lucky_transport.messages.methods import Method
from lucky_transport_migration.compare import arrays
from lucky_transport_migration.compare.arrays import first_difference
from lucky_transport_migration.compare.difference import AtCall, AtMove, Difference, LocatedDifference
from lucky_transport_migration.compare.rules import UNSEEN, ComparisonRules
from lucky_transport_migration.compare.shown import error_text, short
from lucky_transport_migration.parity.call_answers import CallResult, differing

__all__ = ["Asked", "Attempt", "Event", "RecordedExchange", "attempt", "difference", "left_out"]


@dataclass(slots=True)
class Attempt:
    """What a call into a transport gave: a value, or the error it raised."""

    value: Any = None
    error: Exception | None = None

    @property
    def text(self) -> str:
        """The error as "Class: text", "" when there was none."""
        return "" if self.error is None else error_text(self.error)

    def outcome(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def attempt(function: Callable[..., Any], *arguments: Any) -> Attempt:
    """Return what `function` gave; an error is kept, but for those that end programs."""
    try:
        return Attempt(function(*arguments))
    except Exception as error:  # whatever it is, it is what is compared
        return Attempt(error=error)


@dataclass(slots=True)
class RecordedExchange:
    """One exchange: its number, from 1, what was sent, and the frame as named arrays, or the error."""

    number: int
    actions: NDArray[Any]
    control: NDArray[np.uint8] | None
    table: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    error: str = ""

    @property
    def name(self) -> str:
        """What a report calls it."""
        return "reset" if self.control is not None and (self.control & RESET).any() else "step"

    @property
    def values(self) -> int:
        """How many values it compares."""
        return sum(array.size for array in self.table.values())

    @property
    def nbytes(self) -> int:
        """The memory it takes, about."""
        return self.actions.nbytes + sum(array.nbytes for array in self.table.values())

    def is_repeated_by(self, other: Event) -> bool:
        """True when the other side did the same thing."""
        return (
            isinstance(other, RecordedExchange)
            and _same(self.actions, other.actions)
            and _same(self.control, other.control)
        )


@dataclass(slots=True)
class Asked:
    """One typed call: request and response, or the error."""

    number: int
    method: Method
    request: Any
    answer: CallResult

    @property
    def name(self) -> str:
        """What a report calls it."""
        return self.method.name

    @property
    def values(self) -> int:
        """How many values it compares: messages count as one."""
        return 1

    @property
    def nbytes(self) -> int:
        """The memory it takes, which is unknown; messages are small."""
        return 1 << 10

    def is_repeated_by(self, other: Event) -> bool:
        """True when the other side did the same thing."""
        return isinstance(other, Asked) and self.method is other.method and self.request == other.request


Event = RecordedExchange | Asked


def difference(left: tuple[str, Event], right: tuple[str, Event], rules: ComparisonRules) -> LocatedDifference | None:
    """Return where the answers to the same thing, done over two named transports, first differ; None if nowhere."""
    (name, mine), (other_name, other) = left, right
    if isinstance(mine, Asked) and isinstance(other, Asked):
        found = differing(mine.method, mine.answer, other.answer, rules)
        place = AtCall(mine.name, mine.number, "a call", short(repr(mine.request)))
    else:
        assert isinstance(mine, RecordedExchange)
        assert isinstance(other, RecordedExchange)
        place = AtMove("side by side", mine.number, mine.name)
        if mine.error != other.error:
            found = Difference("error", "error", mine.error or "no error", other.error or "no error")
        else:
            found = first_difference(mine.table, other.table, rules)
    return None if found is None else LocatedDifference(found, (name, other_name), place)


def left_out(event: Event, rules: ComparisonRules) -> Iterator[tuple[str, str]]:
    """Yield (what, why) of everything in an answer that rules leave out."""
    if isinstance(event, Asked):
        yield from ((key, rules.rows[key].skip) for key in rules.left_out(event.method.response))
        yield from UNSEEN.items()
        return
    yield from arrays.left_out(event.table, rules)


def _same(left: NDArray[Any] | None, right: NDArray[Any] | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
