"""Scalars: their `struct` codes, and what is wrong with a value that is none."""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Sequence
from typing import Any

from lucky_transport.codec.place import Misfit

__all__ = ["CODES", "WIDTHS", "first_misfit", "scalar_misfit"]

#: Scalar kinds of `messages.fields` and their `struct` codes.
CODES = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "u64": "Q", "bool": "?"}

#: Their bytes, which are their alignment too.
WIDTHS = {kind: struct.calcsize(f"<{code}") for kind, code in CODES.items()}


def scalar_misfit(kind: str, value: Any) -> Misfit | None:
    """Return what is wrong with `value` as a scalar of that kind, None when nothing is."""
    try:
        struct.pack(f"<{CODES[kind]}", value)
    except (struct.error, OverflowError, TypeError):
        shown = reprlib.repr(value)
        if hasattr(value, "__float__" if kind in ("f32", "f64") else "__index__"):
            return Misfit(f"{shown} does not fit {kind}")
        return Misfit(f"{shown} is {type(value).__name__}, expected a number that fits {kind}", TypeError)
    return None


def first_misfit(places: Sequence[str], kinds: Sequence[str], values: Sequence[Any]) -> Misfit | None:
    """Return what is wrong with the first value that does not fit, within its place (".field" or "[index]")."""
    for place, kind, value in zip(places, kinds, values, strict=True):
        found = scalar_misfit(kind, value)
        if found is not None:
            return found.within(place)
    return None
