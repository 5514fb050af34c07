"""Messages with fields of every sort, for tests of codecs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.messages.scalars import F32, F64, I32, U32, U64
from lucky_transport.messages.scalars import struct as in_place

__all__ = ["Colour", "Everything", "Leaf", "Mixed", "Point"]


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


@dataclass(slots=True)
class Everything:
    """Each sort of field that there is."""

    flag: bool = False
    small: I32 = 0
    count: U32 = 0
    big: U64 = 0
    ratio: F32 = 0.0
    exact: F64 = 0.0
    colour: Annotated[Colour, "i32"] = Colour.RED
    maybe: F32 | None = None
    perhaps: bool | None = None
    name: str = ""
    raw: bytes = b""
    point: Point | None = None
    mixed: Mixed | None = None
    leaf: Leaf | None = None
    flags: list[bool] = field(default_factory=list[bool])
    smalls: list[I32] = field(default_factory=list[I32])
    counts: list[U32] = field(default_factory=list[U32])
    bigs: list[U64] = field(default_factory=list[U64])
    ratios: list[F32] = field(default_factory=list[F32])
    exacts: list[F64] = field(default_factory=list[F64])
    names: list[str] = field(default_factory=list[str])
    points: list[Point] = field(default_factory=list[Point])
    mixeds: list[Mixed] = field(default_factory=list[Mixed])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    flag_of: dict[str, bool] = field(default_factory=dict[str, bool])
    small_of: dict[str, I32] = field(default_factory=dict[str, I32])
    big_of: dict[str, U64] = field(default_factory=dict[str, U64])
    ratio_of: dict[str, F32] = field(default_factory=dict[str, F32])
    exact_of: dict[str, F64] = field(default_factory=dict[str, F64])
    name_of: dict[str, str] = field(default_factory=dict[str, str])
    leaf_of: dict[str, Leaf] = field(default_factory=dict[str, Leaf])
    raws: list[bytes] = field(default_factory=list[bytes])
    colours: list[Annotated[Colour, "i32"]] = field(default_factory=list[Colour])
    colour_of: dict[str, Annotated[Colour, "i32"]] = field(default_factory=dict[str, Colour])
    raw_of: dict[str, bytes] = field(default_factory=dict[str, bytes])
    point_of: dict[str, Point] = field(default_factory=dict[str, Point])
