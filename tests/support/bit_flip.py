"""One bit flipped: the smallest difference in a message or an array.

A value is changed in the width it has on the wire, so that the difference survives every codec.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages.fields import Field, fields_of

__all__ = ["flip_array", "flip_message"]


def flip_array(array: NDArray[Any], row: int = 0) -> NDArray[Any]:
    """Return a read-only copy of `array` with the lowest bit of the first element of `row` flipped."""
    flipped = np.array(array, order="C")
    at = row * (flipped.nbytes // len(flipped))
    flipped.reshape(-1).view(np.uint8)[at] ^= 1
    flipped.flags.writeable = False
    return flipped


def flip_message(message: Any, path: str = "") -> Any:
    """Return a copy of `message` with one bit flipped: in the field at the dotted `path`, else in the first field
    that holds anything.

    Raises ValueError when there is no such field, or nothing in it.
    """
    changed = copy.deepcopy(message)
    *parents, last = path.split(".")
    holder: Any = changed
    for name in parents:
        holder = getattr(holder, name, None)
    if not any(_flip(holder, field) for field in _fields(holder) if last in ("", field.name)):
        raise ValueError(f"{type(message).__name__} holds nothing to change{f' at {path!r}' if path else ''}")
    return changed


def _fields(message: object) -> tuple[Field, ...]:
    return () if message is None else fields_of(type(message))


def _flip(holder: Any, field: Field) -> bool:
    """Change the first value of a field in place; False when it holds none."""
    value = getattr(holder, field.name)
    if field.shape == "one":
        if value is None:
            return False
        if field.message is not None:
            return any(_flip(value, inner) for inner in fields_of(field.message))
        flipped = _other(field, value)
        if flipped is not None:
            setattr(holder, field.name, flipped)
        return flipped is not None
    for key in range(len(value)) if field.shape == "list" else value:
        if field.message is not None:
            if any(_flip(value[key], inner) for inner in fields_of(field.message)):
                return True
        elif (flipped := _other(field, value[key])) is not None:
            value[key] = flipped
            return True
    return False


def _other(field: Field, value: Any) -> Any:
    """Return `value` with its lowest bit flipped; None for an empty text."""
    return _OTHER.get(field.kind, _whole_number)(value)


def _whole_number(value: int) -> int:
    return int(value) ^ 1


def _number(code: str) -> Callable[[float], float]:
    def flip(value: float) -> float:
        packed = bytearray(struct.pack(f"<{code}", value))
        packed[0] ^= 1
        return struct.unpack(f"<{code}", packed)[0]

    return flip


def _text(value: str) -> str | None:
    return value[:-1] + ("a" if value[-1] != "a" else "b") if value else None


def _bytes(value: Any) -> bytes | None:
    return bytes((value[0] ^ 1, *value[1:])) if len(value) else None


#: Per kind of field; whole numbers, members of enums among them, are all else.
_OTHER: dict[str, Callable[[Any], Any]] = {
    "f32": _number("f"),
    "f64": _number("d"),
    "bool": lambda value: not value,
    "str": _text,
    "bytes": _bytes,
}
