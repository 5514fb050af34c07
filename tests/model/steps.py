"""The language of the step tables: one row is one atomic step, and names the line of the source that it stands for.

A process is a list of rows. `If`, `Loop` and `Break` hold rows; `compile_rows` makes jumps of them. Values and places
may be functions of the process's registers, a dict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Order(Enum):
    """The orders of C11; a PLAIN access is not atomic."""

    PLAIN = "plain"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def acquires(self) -> bool:
        return self in (Order.ACQUIRE, Order.ACQ_REL, Order.SEQ_CST)

    @property
    def releases(self) -> bool:
        return self in (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)


Registers = dict[str, Any]
Condition = Callable[[Registers], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One atomic step. at: the function of the source. text: its line there, `{}` where the order stands.

    kept: why the order stands in the source though no run needs it. until: the step waits for a value that fits.
    """

    kind: str
    location: Any = None
    value: Any = None
    into: str | None = None
    order: Order = Order.PLAIN
    failure: Order = Order.RELAXED
    at: str = ""
    text: str = ""
    until: Callable[[Any], bool] | None = None
    expected: Any = None
    condition: Condition | None = None
    kept: str = ""

    def line(self) -> str:
        """Return the line of the source, as a reader finds it."""
        if not self.text:
            what = f"{self.kind} {self.location}" if isinstance(self.location, str) else self.kind
            return f"{what} = {self.value}" if self.kind in ("write", "store") and not callable(self.value) else what
        return f"{self.at}: {self.text.format(f'__ATOMIC_{self.order.name}', f'__ATOMIC_{self.failure.name}')}"

    def with_order(self, order: Order) -> Step:
        """Return the same step with another order."""
        return dataclasses.replace(self, order=order)


@dataclass(frozen=True, slots=True, eq=False)
class If:
    condition: Condition
    then: list[Row]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    body: list[Row]


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    condition: Condition


Row = Step | If | Loop | Break
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Process:
    """One process (or thread): its name, its rows and its registers' first values."""

    name: str
    rows: Rows
    registers: Registers = dataclasses.field(default_factory=dict)


def load(into: str, location: Any, order: Order, at: str = "", text: str = "", **options: Any) -> Step:
    return Step("load", location, into=into, order=order, at=at, text=text, **options)


def store(location: Any, value: Any, order: Order, at: str = "", text: str = "", **options: Any) -> Step:
    return Step("store", location, value, order=order, at=at, text=text, **options)


def exchange(into: str, location: Any, value: Any, order: Order, at: str = "", text: str = "", **options: Any) -> Step:
    """Store the value, where `expected` is if that is given; `into` is what was there, or whether that was expected."""
    return Step("exchange", location, value, into, order, at=at, text=text, **options)


def fence(order: Order, at: str = "", text: str = "__atomic_thread_fence({})", **options: Any) -> Step:
    return Step("fence", order=order, at=at, text=text, **options)


def read(into: str, location: Any, at: str = "", text: str = "", order: Order = Order.PLAIN) -> Step:
    return Step("read", location, into=into, at=at, text=text, order=order)


def write(location: Any, value: Any, at: str = "", text: str = "") -> Step:
    return Step("write", location, value, at=at, text=text)


def futex_wait(location: str, at: str = "", text: str = "") -> Step:
    """Sleep while the word is 1; the kernel compares it behind a full fence, under the lock of its wait queue."""
    return Step("futex_wait", location, order=Order.SEQ_CST, at=at, text=text)


def futex_wake(location: str, at: str = "", text: str = "") -> Step:
    """Wake one sleeper; a full fence, as in the kernel (futex_hb_waiters_pending)."""
    return Step("futex_wake", location, order=Order.SEQ_CST, at=at, text=text)


def check(condition: Condition, message: str) -> Step:
    return Step("check", condition=condition, text=message)


def do(change: Callable[[Registers], Registers]) -> Step:
    """Change registers only."""
    return Step("do", value=change)


@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """In compiled rows: go to `target` when the condition holds (or always)."""

    target: int
    condition: Condition | None

    def line(self) -> str:
        return f"a jump to {self.target}"


def compile_rows(rows: Iterable[Row]) -> list[Step | Jump]:
    """Return the rows in one list, with jumps for what holds other rows."""
    code: list[Step | Jump] = []
    _compile(rows, code, [])
    return code


def _compile(rows: Iterable[Row], code: list[Step | Jump], breaks: list[int]) -> None:
    for row in rows:
        match row:
            case Step():
                code.append(row)
            case If(condition, then):
                at = len(code)
                code.append(Jump(-1, None))
                _compile(then, code, breaks)
                code[at] = Jump(len(code), lambda r, holds=condition: not holds(r))
            case Loop(body):
                start, inner = len(code), list[int]()
                _compile(body, code, inner)
                code.append(Jump(start, None))
                for at in inner:
                    jump = code[at]
                    assert isinstance(jump, Jump)
                    code[at] = Jump(len(code), jump.condition)
            case Break(condition):
                breaks.append(len(code))
                code.append(Jump(-1, condition))


def steps_of(rows: Iterable[Row]) -> Iterator[Step]:
    """All steps of the rows, in the order in which they are written."""
    for row in rows:
        match row:
            case Step():
                yield row
            case If(_, inner) | Loop(inner):
                yield from steps_of(inner)
            case _:
                pass
