"""Where two messages first differ: every field, bit for bit in the width it has on the wire.

Rule 1: 0.0 and -0.0 differ, NaN equals NaN; a list's order counts, a map's does not. Absent and empty are told apart
        where the wire does.
Rule 2: what a clock put into a message is not compared; `NOT_COMPARED` has every such field with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.media import ImageFrame
from lucky_transport.messages.stepping import AgentFrame, StepResponse
from lucky_transport.messages.telemetry import TelemetryFrame

__all__ = ["NOT_COMPARED", "LeftOut", "Unequal", "first_unequal"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A field that is not compared, and why. `streams`: only in the items of a stream."""

    message: type
    field: str
    why: str
    streams: bool = False

    @property
    def what(self) -> str:
        """The field's name, as a report says it."""
        return f"{self.message.__name__}.{self.field}{' of streams' if self.streams else ''}"


_CLOCK = "the wall clock at that moment; compared is whether there is one"
_DURATION = "microseconds that the engine took"

NOT_COMPARED: tuple[LeftOut, ...] = (
    LeftOut(AgentFrame, "timestamp_ms", _CLOCK),
    LeftOut(ImageFrame, "timestamp_ms", _CLOCK),
    LeftOut(TelemetryFrame, "timestamp_ms", _CLOCK),
    LeftOut(StepResponse, "physics_step_duration_us", _DURATION),
    LeftOut(
        ImageFrame,
        "frame_number",
        "counts ticks of the wall clock, of which a busy engine leaves out some; compared is that it grows",
        streams=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Unequal:
    """A place in a message and what each side has there; "" is the message itself."""

    path: str
    left: Any
    right: Any


def first_unequal(message: type[Any], left: Any, right: Any, *, streamed: bool = False) -> Unequal | None:
    """Return where two messages of that class first differ, in the order of their fields; None if nowhere."""
    return next(_unequal(message, left, right, "", streamed), None)


def _unequal(message: type[Any], left: Any, right: Any, path: str, streamed: bool) -> Iterator[Unequal]:
    if type(left) is not message or type(right) is not message:
        if left is not right:
            yield Unequal(path, left, right)
        return
    for field in fields_of(message):
        inner = f"{path}.{field.name}" if path else field.name
        x, y = getattr(left, field.name), getattr(right, field.name)
        left_out = _left_out(message, field.name, streamed)
        if left_out is None:
            yield from _field(field, x, y, inner, streamed)
        elif left_out.why is _CLOCK and bool(x) != bool(y):
            yield Unequal(inner, x, y)


def _left_out(message: type[Any], name: str, streamed: bool) -> LeftOut | None:
    for row in NOT_COMPARED:
        if row.message is message and row.field == name and (streamed or not row.streams):
            return row
    return None


def _field(field: Field, left: Any, right: Any, path: str, streamed: bool) -> Iterator[Unequal]:
    if field.shape == "list":
        yield from _lists(field, left, right, path, streamed)
    elif field.shape == "map":
        for key in sorted({*left, *right}):
            place = f"{path}[{key!r}]"
            if key not in left or key not in right:
                yield Unequal(place, left.get(key, "absent"), right.get(key, "absent"))
            else:
                yield from _one(field, left[key], right[key], place, streamed)
    else:
        yield from _one(field, left, right, path, streamed)


def _lists(field: Field, left: Any, right: Any, path: str, streamed: bool) -> Iterator[Unequal]:
    if len(left) != len(right):
        yield Unequal(f"len({path})", len(left), len(right))
    elif field.kind not in ("f32", "f64") or _bits(field.kind, left) != _bits(field.kind, right):
        for index, (x, y) in enumerate(zip(left, right, strict=True)):
            yield from _one(field, x, y, f"{path}[{index}]", streamed)


def _one(field: Field, left: Any, right: Any, path: str, streamed: bool) -> Iterator[Unequal]:
    if field.message is not None:
        yield from _unequal(field.message, left, right, path, streamed)
    elif left is None or right is None:
        if left is not right:
            yield Unequal(path, left, right)
    elif field.kind == "bytes":
        yield from _bytes(left, right, path)
    elif field.kind in ("f32", "f64"):
        if _bits(field.kind, [left]) != _bits(field.kind, [right]):
            yield Unequal(path, left, right)
    elif type(left) is not type(right) or left != right:
        yield Unequal(path, left, right)


def _bits(kind: str, values: Any) -> bytes:
    """Return numbers as the wire carries them, every NaN as the same one."""
    with np.errstate(over="ignore"):
        numbers = np.array(values, np.float32 if kind == "f32" else np.float64)
    numbers[np.isnan(numbers)] = np.nan
    return numbers.tobytes()


def _bytes(left: Any, right: Any, path: str) -> Iterator[Unequal]:
    x, y = bytes(left), bytes(right)
    if len(x) != len(y):
        yield Unequal(f"len({path})", len(x), len(y))
    elif x != y:
        at = next(index for index, (one, other) in enumerate(zip(x, y, strict=True)) if one != other)
        yield Unequal(f"{path}[{at}]", x[at], y[at])
