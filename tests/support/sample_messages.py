"""Small messages of each sort that no method has, for tests of codecs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lucky_transport.messages.scalars import F32, F64, I32, U64
from lucky_transport.messages.scalars import struct as in_place

__all__ = ["Colour", "Leaf", "Mixed", "Point"]


class Colour(IntEnum):
    """An enum."""

    RED = 0
    BLUE = 1


@in_place
@dataclass(slots=True)
class Point:
    """A struct of one width."""

    x: F32 = 0.0
    y: F32 = 0.0


@in_place
@dataclass(slots=True)
class Mixed:
    """A struct with gaps between its fields and after them."""

    flag: bool = False
    wide: F64 = 0.0
    count: I32 = 0


@dataclass(slots=True)
class Leaf:
    """The smallest table, aligned to 8."""

    id: U64 = 0
    name: str = ""
